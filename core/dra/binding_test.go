package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/resource"
)

// binding is a frontend with two devices, of which GPU-0 is slow to prepare, and an API server with
// binding conditions.
type binding struct {
	*rig
	frontend  *Frontend
	lifecycle *fakeLifecycle
	stop      func()
}

func newBinding(t *testing.T) *binding {
	t.Helper()
	b := &binding{rig: &rig{cluster: newAPIServer(), dir: t.TempDir()}, lifecycle: &fakeLifecycle{}}
	b.cluster.binding = true
	b.start(t)
	return b
}

// start starts the agent's frontend, as after a restart.
func (b *binding) start(t *testing.T) {
	t.Helper()
	store := record(t, b.dir)
	reconciler := NewReconciler(ReconcilerOptions{
		Record: store, Lifecycle: b.lifecycle, Client: b.cluster, BootID: "boot", KubeletDir: b.dir, CDIDir: b.dir,
		Listed: func(context.Context) (map[string]bool, error) { return nil, nil },
	})
	b.frontend = NewFrontend(Options{
		NodeName: node, BootID: "boot", KubeletDir: b.dir, Sysfs: b.dir, Lifecycle: b.lifecycle, Record: store, Client: b.cluster, End: reconciler.End,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.frontend.Run(ctx) }()
	b.stop = func() {
		if cancel(); b.frontend == nil {
			return
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		b.frontend = nil
	}
	t.Cleanup(b.stop)
	slow := device("GPU-0")
	slow.SlowToPrepare, slow.Hooks.Prepare = true, true
	b.frontend.Publish(roundOf([]config.API{config.APIDRA}, []resource.Device{slow, device("GPU-1")}))
}

// awaited reports whether slices have a device for which pods wait.
func (b *binding) awaited(t *testing.T) bool {
	t.Helper()
	list, err := b.cluster.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list.Items, func(s resourceapi.ResourceSlice) bool {
		return slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool {
			return d.Name == "gpu-0" && len(d.BindingConditions) == 1 && len(d.BindingFailureConditions) == 1 && d.BindsToNode != nil
		})
	})
}

func slowResult() resourceapi.DeviceRequestAllocationResult {
	r := result("a", "gpu-0")
	r.BindingConditions, r.BindingFailureConditions = []string{pool.ConditionPrepared}, []string{pool.ConditionFailed}
	return r
}

// conditions returns those of a claim that are true, with their messages.
func (b *binding) conditions(t *testing.T, name string) (all string) {
	t.Helper()
	c, err := b.cluster.ResourceV1().ResourceClaims("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range c.Status.Devices {
		for _, condition := range d.Conditions {
			if apimeta.IsStatusConditionTrue(d.Conditions, condition.Type) {
				all += fmt.Sprintf("%s %s: %s", d.Device, condition.Type, condition.Message)
			}
		}
	}
	return all
}

func (b *binding) want(t *testing.T, name, conditions string) {
	t.Helper()
	until(t, func() bool { return strings.HasPrefix(b.conditions(t, name), conditions) }, func() any {
		return fmt.Sprintf("the conditions are %q, want %q", b.conditions(t, name), conditions)
	})
}

func (b *binding) ended() []string {
	b.lifecycle.mu.Lock()
	defer b.lifecycle.mu.Unlock()
	return slices.Clone(b.lifecycle.ended)
}

// Verifies that a claim with a device that is slow to prepare is prepared before kubelet asks for it, and
// has the condition then; that the record has it, for kubelet, until it is not allocated any more; and that
// a claim with another device is left to kubelet.
func TestBinding(t *testing.T) {
	b := newBinding(t)
	until(t, func() bool { return b.awaited(t) }, func() any { return "the slices have no binding conditions" })
	b.allocate(t, "other", nil, result("a", "gpu-1"))
	b.allocate(t, "c", nil, slowResult())
	b.want(t, "c", "gpu-0 accelmux.io/Prepared: ")
	if other := b.frontend.opts.Record.Get(driverName, "uid-other"); other != nil {
		t.Errorf("%v is prepared before kubelet asks for it", other)
	}
	if b.lifecycle.prepared[0].Limit != unboundLimit {
		t.Errorf("the backend has %v", b.lifecycle.prepared[0].Limit)
	}

	// The claim is deallocated before kubelet asks.
	b.change(t, "c", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
	until(t, func() bool { return b.frontend.opts.Record.Get(driverName, "uid-c") == nil }, func() any { return "the claim is still prepared" })

	// Kubelet has asked for it: it ends when kubelet unprepares it.
	b.allocate(t, "d", nil, slowResult())
	b.want(t, "d", "gpu-0 accelmux.io/Prepared: ")
	driver := b.frontend.binder.driver(driverName)
	of, err := b.cluster.ResourceV1().ResourceClaims("ns").Get(t.Context(), "d", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if results, err := driver.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{of}); err != nil || results[of.UID].Err != nil || len(b.lifecycle.prepared) != 2 {
		t.Fatalf("kubelet's prepare: %v, %v; prepared %d", results, err, len(b.lifecycle.prepared))
	}
	if c := record(t, b.dir).Get(driverName, "uid-d"); c == nil || c.Unbound {
		t.Errorf("the record has %v", c)
	}
	if err := b.frontend.binder.handle(t.Context(), nameOf(of)); err != nil || b.frontend.opts.Record.Get(driverName, "uid-d") == nil {
		t.Error("a claim that kubelet has is ended", err)
	}
}

// Verifies that the condition of a preparation that failed has the reason, and that nothing is left; and that
// it is tried again with another allocation only.
func TestBindingFailed(t *testing.T) {
	b := newBinding(t)
	b.lifecycle.backend = func(context.Context) error { return errors.New("the bitstream does not fit") }
	until(t, func() bool { return b.awaited(t) }, func() any { return "the slices have no binding conditions" })
	b.allocate(t, "c", nil, slowResult())
	b.want(t, "c", "gpu-0 accelmux.io/PreparationFailed: the bitstream does not fit")
	if ended := b.ended(); len(ended) != 1 || b.frontend.opts.Record.Get(driverName, "uid-c") != nil {
		t.Errorf("ended %v, the record has %v", ended, b.frontend.opts.Record.All())
	}
	b.lifecycle.mu.Lock()
	b.lifecycle.backend = nil
	b.lifecycle.mu.Unlock()
	b.change(t, "c", func(c *resourceapi.ResourceClaim) {
		c.Status.Devices, c.Status.Allocation.AllocationTimestamp = nil, &metav1.Time{Time: time.Unix(1, 0)}
	})
	b.want(t, "c", "gpu-0 accelmux.io/Prepared: ")
}

// Verifies that a preparation ends when its claim is deleted meanwhile, and that one that ended with the agent
// is done again by the next one, also if only the condition was missing.
func TestBindingInterrupted(t *testing.T) {
	b := newBinding(t)
	began := make(chan struct{}, 1)
	b.lifecycle.backend = func(ctx context.Context) error {
		began <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	until(t, func() bool { return b.awaited(t) }, func() any { return "the slices have no binding conditions" })
	b.allocate(t, "c", nil, slowResult())
	<-began
	if err := b.cluster.ResourceV1().ResourceClaims("ns").Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(b.ended()) == 1 }, func() any { return "the preparation does not end" })

	b.allocate(t, "d", nil, slowResult())
	<-began
	b.stop()
	if conditions := b.conditions(t, "d"); conditions != "" {
		t.Errorf("the agent has ended, and the conditions are %s", conditions)
	}
	b.lifecycle.backend = nil
	b.start(t)
	b.want(t, "d", "gpu-0 accelmux.io/Prepared: ")
	b.stop()
	b.change(t, "d", func(c *resourceapi.ResourceClaim) { c.Status.Devices = nil })
	b.start(t)
	b.want(t, "d", "gpu-0 accelmux.io/Prepared: ")
	if len(b.lifecycle.prepared) != 1 {
		t.Errorf("prepared %d times", len(b.lifecycle.prepared))
	}
}

// Verifies that no pod waits where the agent may not watch claims, or may not write their conditions, without
// a problem that names the permission.
func TestBindingForbidden(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "resourceclaims"}, "", errors.New("no rule"))
	b := newBinding(t)
	until(t, func() bool { return b.awaited(t) }, func() any { return "the slices have no binding conditions" })
	b.cluster.PrependReactor("update", "resourceclaims", func(a k8stesting.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "status", nil, forbidden
	})
	b.allocate(t, "c", nil, slowResult())
	until(t, func() bool { return strings.Contains(fmt.Sprint(b.frontend.Problems()), "associated-node:update") }, func() any { return b.frontend.Problems() })
	if err := b.cluster.ResourceV1().ResourceClaims("ns").Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(b.frontend.Problems()) == 0 }, func() any { return b.frontend.Problems() })
	b.stop()
	b.cluster.PrependReactor("list", "resourceclaims", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	b.start(t)
	until(t, func() bool { return !b.awaited(t) }, func() any { return "pods wait" })
	if !strings.Contains(fmt.Sprint(b.frontend.Problems()), "needs the verb") {
		t.Error(b.frontend.Problems())
	}
}
