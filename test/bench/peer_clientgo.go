package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// runClientGo takes part in an election of client-go on a Lease, with the default
// times of Kubernetes' own components. On a graceful stop it releases the lease.
func runClientGo(ctx context.Context, f peerFlags) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return err
	}
	client, err := coordination.NewForConfig(cfg)
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: f.objects, Namespace: "default"},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: f.id},
		},
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { say(saysLeads) },
			OnStoppedLeading: func() {},
			OnNewLeader: func(id string) {
				if id != f.id {
					say(saysFollows)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return ctx.Err()
}
