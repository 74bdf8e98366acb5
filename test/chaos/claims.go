package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/apiserver"
)

// draKubelet is what claims need of kubelet; a real one's is tried in test/kubelet.
type draKubelet interface {
	Drivers() []string
	PrepareClaim(ctx context.Context, pod, driver string, claim kubelettest.Claim) ([]*drapb.Device, error)
	UnprepareClaim(ctx context.Context, driver string, claim kubelettest.Claim) error
	FreeClaims(pod string)
}

// claims are the node's pods with claims, and what the control plane and kubelet do for them.
type claims struct {
	api     kubernetes.Interface // never away
	kubelet draKubelet           // nil: it has none
	stop    context.CancelFunc
	done    chan struct{}

	mu   sync.Mutex
	pods []claimPod // the oldest first
}

// claimPod is a pod with a claim. One that ends is there until its claim is unprepared.
type claimPod struct {
	name   string
	claim  *podClaim
	ending bool
}

// podClaim is a claim. Nobody changes it but prepared and lost, which the steps alone use.
type podClaim struct {
	kubelettest.Claim
	devices []string // their IDs
	// prepared: kubelet had an answer. lost: the API server does not have it any more.
	prepared, lost bool
	// damaged: the agent cannot read what it knows of it; excused: the definitions are gone since.
	damaged, excused bool
}

// claimHold is in the place of the resource in the hold of a claim.
const claimHold = "a claim"

// newClaims makes the API server know slices and claims.
func (w *world) newClaims() error {
	server := apiserver.New(apiserver.Slices(), apiserver.Claims())
	w.server.Handle("/apis/"+resourceapi.GroupName+"/", server)
	api, err := server.Client()
	w.claims.api = api
	return err
}

// serve has kubelet unprepare the claims of pods that end, until close.
func (c *claims) serve(k draKubelet) {
	ctx, cancel := context.WithCancel(context.Background())
	c.kubelet, c.stop, c.done = k, cancel, make(chan struct{})
	go func() {
		defer close(c.done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.end(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
}

func (c *claims) close() {
	if c.stop != nil {
		c.stop()
		<-c.done
	}
}

// end is one attempt of kubelet's to end each pod that is to end. The last pod of a claim goes when that is
// unprepared, and then the control plane deletes the claim.
func (c *claims) end(ctx context.Context) {
	for _, p := range c.all() {
		if !p.ending {
			continue
		}
		last := !slices.ContainsFunc(c.all(), func(other claimPod) bool { return other.name != p.name && other.claim == p.claim })
		if last {
			if c.kubelet.UnprepareClaim(ctx, claimDriver, p.claim.Claim) != nil {
				continue
			}
		}
		c.drop(p.name)
		if last {
			_ = c.remove(ctx, p.claim) // it may be lost
		}
	}
}

// drop has kubelet know no more of a pod.
func (c *claims) drop(pod string) {
	c.kubelet.FreeClaims(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods = slices.DeleteFunc(c.pods, func(p claimPod) bool { return p.name == pod })
}

// remove deletes a claim from the API server.
func (c *claims) remove(ctx context.Context, claim *podClaim) error {
	return c.api.ResourceV1().ResourceClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{})
}

// all are the pods.
func (c *claims) all() []claimPod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.pods)
}

// living are those that do not end.
func (c *claims) living() []claimPod {
	return slices.DeleteFunc(c.all(), func(p claimPod) bool { return p.ending })
}

// living reports whether a pod with devices, by whatever API, has not ended.
func (w *world) living(pod string) bool {
	return slices.Contains(w.pods, pod) || slices.ContainsFunc(w.claims.living(), func(p claimPod) bool { return p.name == pod })
}

// finish has a pod end.
func (c *claims) finish(pod string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.pods {
		c.pods[i].ending = c.pods[i].ending || c.pods[i].name == pod
	}
}

// excuse takes note that the definitions of claims are gone, which the agent cannot write again if it
// cannot read what it knew of them.
func (c *claims) excuse() {
	for _, p := range c.all() {
		p.claim.excused = p.claim.damaged
	}
}

// holds are those of claims that are prepared, each once.
func (c *claims) holds() []hold {
	var all []hold
	seen := map[*podClaim]bool{}
	for _, p := range c.all() {
		if seen[p.claim] || !p.claim.prepared {
			continue
		}
		seen[p.claim] = true
		for _, id := range p.claim.devices {
			all = append(all, hold{Pod: p.claim.Name, Resource: claimHold, Unit: id})
		}
	}
	return all
}

// published are the devices in the API server's slices by their IDs.
func (c *claims) published(ctx context.Context) (map[string]resourceapi.Device, error) {
	list, err := c.api.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := map[string]resourceapi.Device{}
	for _, s := range list.Items {
		if s.Spec.Driver != claimDriver {
			continue
		}
		for _, d := range s.Spec.Devices {
			id := d.Attributes["accelmux.io/id"]
			if id.StringValue == nil {
				return nil, errors.New("device " + d.Name + " has no ID")
			}
			if _, twice := all[*id.StringValue]; twice {
				return nil, errors.New("device " + d.Name + " is published twice")
			}
			all[*id.StringValue] = d
		}
	}
	return all, nil
}

// wipe deletes the slices, as kubelet does when it starts, and as anybody may.
func (c *claims) wipe() error {
	return c.api.ResourceV1().ResourceSlices().DeleteCollection(context.Background(), metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + nodeName})
}

// ofClaim reports whether a CDI name is that of a claim.
func ofClaim(name string) bool { return strings.HasPrefix(name, "iota.accelmux.io/holder=") }
