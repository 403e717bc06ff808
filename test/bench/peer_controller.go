package main

import (
	"context"
	"errors"
	"fmt"

	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apply "k8s.io/client-go/applyconfigurations/rbac/v1"
	roles "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"golang.org/x/sync/errgroup"
)

// controller repairs objects with client-go, as people write a controller: an informer, a queue, and for each key
// in it a comparison with the informer's copy, and an apply if they differ. It has no rate limit.
type controller struct {
	client roles.ClusterRoleInterface
	wanted map[string]wantedRole
	store  cache.Store
	queue  workqueue.TypedRateLimitingInterface[string]
}

type wantedRole struct {
	apply *apply.ClusterRoleApplyConfiguration
	rules []rbac.PolicyRule
}

func runController(ctx context.Context, f peerFlags) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1
	cfg.AcceptContentTypes, cfg.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	client, err := roles.NewForConfig(cfg)
	if err != nil {
		return err
	}
	c := controller{
		client: client.ClusterRoles(), wanted: map[string]wantedRole{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	groups, resources, verbs := []string{"apps"}, []string{"deployments", "statefulsets"}, []string{"get", "list", "watch", "patch"}
	for i := range 400 {
		role := apply.ClusterRole(fmt.Sprintf("%s-%d", f.objects, i)).WithLabels(map[string]string{"bench": f.objects})
		w := wantedRole{apply: role}
		for range 5 {
			w.rules = append(w.rules, rbac.PolicyRule{APIGroups: groups, Resources: resources, Verbs: verbs})
			role.WithRules(apply.PolicyRule().WithAPIGroups(groups...).WithResources(resources...).WithVerbs(verbs...))
		}
		c.wanted[*role.Name] = w
	}
	objects := cache.NewFilteredListWatchFromClient(client.RESTClient(), "clusterroles", "", func(o *metav1.ListOptions) {
		o.LabelSelector = "bench=" + f.objects
	})
	informer := cache.NewSharedIndexInformer(objects, &rbac.ClusterRole{}, 0, cache.Indexers{})
	c.store = informer.GetStore()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueue, UpdateFunc: func(_, now any) { c.enqueue(now) }, DeleteFunc: c.enqueue,
	}); err != nil {
		return err
	}
	return c.run(ctx, informer)
}

func (c controller) enqueue(obj any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		c.queue.Add(name)
	}
}

// run applies all objects, and then what the queue names.
func (c controller) run(ctx context.Context, informer cache.SharedIndexInformer) error {
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for name := range c.wanted {
		group.Go(func() error { return c.apply(all, name) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	group, all = errgroup.WithContext(ctx)
	group.Go(func() error { informer.RunWithContext(all); return nil })
	group.Go(func() error { <-all.Done(); c.queue.ShutDown(); return nil })
	if !cache.WaitForCacheSync(all.Done(), informer.HasSynced) {
		return errors.Join(errors.New("the informer has not listed the objects"), group.Wait())
	}
	say(saysKeeps)
	group.Go(func() error { return c.work(all) })
	return group.Wait()
}

// work reconciles until the queue is shut down.
func (c controller) work(ctx context.Context) error {
	for {
		name, over := c.queue.Get()
		if over {
			return ctx.Err()
		}
		if err := c.reconcile(ctx, name); err != nil {
			return err
		}
		c.queue.Forget(name)
		c.queue.Done(name)
	}
}

func (c controller) reconcile(ctx context.Context, name string) error {
	w, own := c.wanted[name]
	obj, exists, err := c.store.GetByKey(name)
	if err != nil || !own {
		return err
	}
	if exists && equality.Semantic.DeepEqual(obj.(*rbac.ClusterRole).Rules, w.rules) {
		return nil
	}
	return c.apply(ctx, name)
}

func (c controller) apply(ctx context.Context, name string) error {
	_, err := c.client.Apply(ctx, c.wanted[name].apply, metav1.ApplyOptions{FieldManager: "controller", Force: true})
	return err
}
