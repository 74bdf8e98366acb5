package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/apiserver"
)

// draKubelet is what claims need of kubelet. Each pod has one container, with one claim of driver
// claimDriver.
type draKubelet interface {
	// Drivers are those that are registered.
	Drivers() []string
	// PrepareClaim does once what kubelet does for a pod with a claim before its container starts. It
	// returns the CDI names that the container gets.
	PrepareClaim(ctx context.Context, pod string, claim kubelettest.Claim) ([]string, error)
	// UnprepareClaim does once what kubelet does for a pod that ends; last: no other pod has the claim.
	UnprepareClaim(ctx context.Context, pod string, claim kubelettest.Claim, last bool) error
	// FreeClaims ends a pod.
	FreeClaims(pod string)
}

// claims are the node's pods with claims, and what the control plane and kubelet do for them.
type claims struct {
	api     kubernetes.Interface // never away
	server  *httptest.Server     // the same for a real kubelet; nil for the stand-in
	kubelet draKubelet           // nil: it has none
	stop    context.CancelFunc
	done    chan struct{}
	// known are all claims that there ever were, by their UIDs, as they were last allocated. The steps
	// alone use it.
	known map[string]*podClaim

	mu   sync.Mutex
	pods []claimPod  // the oldest first
	idle []*podClaim // those that outlived their pods
}

// claimPod is a pod with a claim. One that ends is there until its claim is unprepared.
type claimPod struct {
	name   string
	claim  *podClaim
	ending bool
}

// claimHold is in the place of the resource in the hold of a claim.
const claimHold = "a claim"

// newClaims makes the API server know slices and claims; a real kubelet gets one of its own with the same
// objects, and its Node.
func (w *world) newClaims(ctx context.Context, realKubelet bool) error {
	server := apiserver.New(apiserver.Nodes(), apiserver.Slices(), apiserver.Claims())
	w.server.Handle("/apis/"+resourceapi.GroupName+"/", server)
	w.claims.known = map[string]*podClaim{}
	var err error
	if w.claims.api, err = server.Client(); err != nil || !realKubelet {
		return err
	}
	w.claims.server = httptest.NewServer(server)
	_, err = w.claims.api.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
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
	if c.server != nil {
		c.server.CloseClientConnections()
		c.server.Close()
	}
}

// end is one attempt of kubelet's to end each pod that is to end, which it does when the claim is
// unprepared, and then the control plane's part.
func (c *claims) end(ctx context.Context) {
	for _, p := range c.all() {
		if !p.ending {
			continue
		}
		last := !slices.ContainsFunc(c.all(), func(other claimPod) bool { return other.name != p.name && other.claim == p.claim })
		if c.kubelet.UnprepareClaim(ctx, p.name, p.claim.Claim, last) != nil {
			continue
		}
		c.drop(p.name)
		c.unreserve(ctx, p, last)
	}
}

// unreserve does what the control plane does when a pod has ended. With its last pod a claim is deleted,
// or is not allocated any more.
func (c *claims) unreserve(ctx context.Context, p claimPod, last bool) {
	if last && !p.claim.kept {
		_ = c.remove(ctx, p.claim) // it may be lost
		return
	}
	err := c.update(ctx, p.claim, func(s *resourceapi.ResourceClaimStatus) {
		s.ReservedFor = slices.DeleteFunc(s.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.Name == p.name })
		if last {
			s.Allocation = nil
		}
	})
	if err == nil && last {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle = append(c.idle, p.claim)
	}
}

// reserve is the reservation of a claim for a pod.
func reserve(pod string) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)}
}

// update changes the status of a claim at the API server. A claim that was deleted is an error.
func (c *claims) update(ctx context.Context, claim *podClaim, change func(*resourceapi.ResourceClaimStatus)) error {
	api := c.api.ResourceV1().ResourceClaims(claim.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := api.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&now.Status)
		_, err = api.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
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
			if p.claim.share > 0 {
				id += "::" + p.claim.UID // as a replica: others may have shares, too
			}
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
