package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// saysKeeps: it applied its objects, and watches them.
const saysKeeps = "keeps"

// keeper is the least that can repair objects: one watch, and one apply for each
// disturbed object. It checks nothing, and overwrites everything.
type keeper struct {
	client  *http.Client
	url     string // of the kind
	query   string // selects its objects
	patches map[string]patch
}

func runKeeper(ctx context.Context, f peerFlags) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	k := keeper{
		client: client, url: strings.TrimSuffix(cfg.Host, "/") + "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		query: url.Values{"labelSelector": {"bench=" + f.objects}}.Encode(), patches: map[string]patch{},
	}
	const rule = `{"apiGroups":["apps"],"resources":["deployments","statefulsets"],"verbs":["get","list","watch","patch"]}`
	rules := strings.TrimSuffix(strings.Repeat(rule+",", 5), ",")
	for i := range 400 {
		name := fmt.Sprintf("%s-%d", f.objects, i)
		body := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q,"labels":{"bench":%q}},"rules":[%s]}`,
			name, f.objects, rules)
		k.patches[name] = patch{url: k.url + "/" + name + "?fieldManager=bare&force=true", body: []byte(body)}
	}
	return k.run(ctx)
}

func (k keeper) run(ctx context.Context) error {
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, p := range k.patches {
		group.Go(func() error { return p.send(all, k.client) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	resp, err := k.get(ctx, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return err
	}
	if resp, err = k.get(ctx, "&watch=true&resourceVersion="+list.Metadata.ResourceVersion); err != nil {
		return err
	}
	defer resp.Body.Close()
	say(saysKeeps)
	return k.watch(ctx, resp.Body)
}

// watch repairs disturbed objects until the stream ends.
func (k keeper) watch(ctx context.Context, stream io.Reader) error {
	group, all := errgroup.WithContext(ctx)
	for d := json.NewDecoder(stream); ; {
		var event struct {
			Type   string
			Object struct {
				Metadata struct{ Name string }
				Rules    []json.RawMessage
			}
		}
		if err := d.Decode(&event); err != nil {
			return err
		}
		p, own := k.patches[event.Object.Metadata.Name]
		if own && (event.Type == "DELETED" || len(event.Object.Rules) == 0) {
			group.Go(func() error { return p.send(all, k.client) })
		}
	}
}

func (k keeper) get(ctx context.Context, more string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url+"?"+k.query+more, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	return k.client.Do(req)
}
