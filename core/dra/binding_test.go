package dra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/supervisor"
)

// binding is a frontend with two devices, of which GPU-0 is slow to prepare, and an API server with
// binding conditions.
type binding struct {
	*rig
	frontend  *Frontend
	lifecycle *fakeLifecycle
	stop      func()

	mu sync.Mutex
	// listed are the CDI names that kubelet lists, asked is how often it was asked.
	listed map[string]bool
	asked  int
}

// list sets what kubelet lists, and returns how often it was asked.
func (b *binding) list(names ...string) (asked int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listed = map[string]bool{}
	for _, name := range names {
		b.listed[name] = true
	}
	return b.asked
}

// kubelet has kubelet call to prepare a claim.
func (b *binding) kubelet(t *testing.T, name string) error {
	t.Helper()
	of, err := b.cluster.ResourceV1().ResourceClaims("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	results, err := b.frontend.running()[driverName].PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{of})
	return errors.Join(err, results[of.UID].Err)
}

func newBinding(t *testing.T, reactors ...func(*apiServer)) *binding {
	t.Helper()
	b := &binding{rig: &rig{cluster: newAPIServer(), dir: t.TempDir()}, lifecycle: &fakeLifecycle{}}
	b.cluster.binding = true
	for _, add := range reactors { // the stand-in does not let one be added while it is used
		add(b.cluster)
	}
	b.start(t)
	return b
}

// start starts the agent's frontend, as after a restart.
func (b *binding) start(t *testing.T) {
	t.Helper()
	store := record(t, b.dir)
	b.lifecycle.record = store
	reconciler := NewReconciler(ReconcilerOptions{
		Record: store, Lifecycle: b.lifecycle, Client: b.cluster, BootID: "boot", KubeletRootDir: b.dir, CDIDir: b.dir,
		Listed: func(context.Context) (map[string]bool, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.asked++
			return b.listed, nil
		},
	})
	b.frontend = NewFrontend(Options{
		NodeName: node, BootID: "boot", KubeletRootDir: b.dir, Lifecycle: b.lifecycle, Record: store, Client: b.cluster, Unused: reconciler.Unused, End: reconciler.End,
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
	b.frontend.Publish(roundOf([]config.API{config.APIDRA}, []resource.Device{slowDevice("GPU-0"), device("GPU-1"), slowDevice("GPU-2")}))
}

func slowDevice(id string) resource.Device {
	d := device(id)
	d.SlowToPrepare, d.Hooks.Prepare = true, true
	return d
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

func slowResult(device string) resourceapi.DeviceRequestAllocationResult {
	r := result("a", device)
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
	t.Parallel()
	b := newBinding(t)
	until(t, func() bool { return b.awaited(t) }, func() any { return "the slices have no binding conditions" })
	b.allocate(t, "other", nil, result("a", "gpu-1"))
	b.allocate(t, "c", nil, slowResult("gpu-0"))
	b.want(t, "c", "gpu-0 accelmux.io/Prepared: ")
	if other := b.frontend.opts.Record.Get(driverName, "uid-other"); other != nil {
		t.Errorf("%v is prepared before kubelet asks for it", other)
	}
	if limit := b.lifecycle.prepared[0].Limit; limit <= slowLimit-time.Minute || limit > slowLimit {
		t.Errorf("the backend has %v", limit)
	}
	for _, action := range b.cluster.Actions() {
		if patch, ok := action.(k8stesting.PatchAction); ok && (patch.GetSubresource() != "status" || strings.Contains(string(patch.GetPatch()), `"allocation"`)) {
			t.Errorf("more than the status of the devices is written: %s", patch.GetPatch())
		}
	}

	// The claim is deallocated before kubelet asks.
	b.change(t, "c", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
	until(t, func() bool { return b.frontend.opts.Record.Get(driverName, "uid-c") == nil }, func() any { return "the claim is still prepared" })

	// Kubelet has asked for it: it ends when kubelet unprepares it.
	b.allocate(t, "d", nil, slowResult("gpu-0"))
	b.want(t, "d", "gpu-0 accelmux.io/Prepared: ")
	if err := b.kubelet(t, "d"); err != nil || len(b.lifecycle.prepared) != 2 {
		t.Fatalf("kubelet's prepare: %v; prepared %d", err, len(b.lifecycle.prepared))
	}
	if c := record(t, b.dir).Get(driverName, "uid-d"); c == nil || c.Unbound {
		t.Errorf("the record has %v", c)
	}
	if err := b.frontend.binder.handle(t.Context(), types.NamespacedName{Namespace: "ns", Name: "d"}); err != nil || b.frontend.opts.Record.Get(driverName, "uid-d") == nil {
		t.Error("a claim that kubelet has is ended", err)
	}
}

// Verifies that the condition of a preparation that failed has the reason, and that nothing is left; and that
// it is tried again with another allocation only.
func TestBindingFailed(t *testing.T) {
	t.Parallel()
	b := newBinding(t)
	b.lifecycle.backend = func(context.Context) error { return errors.New("the bitstream does not fit") }
	until(t, func() bool { return b.awaited(t) }, func() any { return "the slices have no binding conditions" })
	b.allocate(t, "c", nil, slowResult("gpu-0"))
	b.want(t, "c", "gpu-0 accelmux.io/PreparationFailed: the bitstream does not fit")
	if ended := b.ended(); len(ended) != 1 || b.frontend.opts.Record.Get(driverName, "uid-c") != nil {
		t.Errorf("ended %v, the record has %v", ended, b.frontend.opts.Record.All())
	}
	b.lifecycle.mu.Lock()
	b.lifecycle.backend = nil
	b.lifecycle.mu.Unlock()
	b.change(t, "c", func(c *resourceapi.ResourceClaim) {
		c.Status.Devices, c.Status.Allocation.AllocationTimestamp = nil, new(metav1.Now())
	})
	b.want(t, "c", "gpu-0 accelmux.io/Prepared: ")
}

// Verifies that a preparation ends when its claim is deleted meanwhile, and that one that ended with the agent
// is done again by the next one, also if only the condition was missing.
func TestBindingInterrupted(t *testing.T) {
	t.Parallel()
	b := newBinding(t)
	began := make(chan struct{}, 1)
	b.lifecycle.backend = func(ctx context.Context) error {
		began <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	until(t, func() bool { return b.awaited(t) }, func() any { return "the slices have no binding conditions" })
	b.allocate(t, "c", nil, slowResult("gpu-0"))
	<-began
	if err := b.cluster.ResourceV1().ResourceClaims("ns").Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(b.ended()) == 1 }, func() any { return "the preparation does not end" })

	b.allocate(t, "d", nil, slowResult("gpu-0"))
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

// Verifies that no pod waits where the agent may not watch claims, or may not write their conditions, and that a
// problem names the permission; and that the error of one claim's conditions is a problem until the claim is gone.
func TestBindingForbidden(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "resourceclaims"}, "", errors.New("no rule"))
	var mu sync.Mutex
	refusals := map[string]error{"c": forbidden, "d": errors.New("the disk is full")}
	b := newBinding(t, func(s *apiServer) {
		s.PrependReactor("patch", "resourceclaims", func(a k8stesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			err := refusals[a.(k8stesting.PatchAction).GetName()] //nolint:forcetypeassert // it is one
			return err != nil, nil, err
		})
	})
	until(t, func() bool { return b.awaited(t) }, func() any { return "the slices have no binding conditions" })
	problem := func(want string) {
		t.Helper()
		until(t, func() bool { return strings.Contains(messages(b.frontend.Problems()), want) }, func() any { return b.frontend.Problems() })
	}
	deleted := func(name string) {
		t.Helper()
		if err := b.cluster.ResourceV1().ResourceClaims("ns").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.allocate(t, "d", nil, slowResult("gpu-2"))
	problem("claim ns/d could not be written, and its pod waits: the disk is full")
	if !b.awaited(t) {
		t.Error("no pod waits after an error that is not of a permission")
	}
	b.allocate(t, "c", nil, slowResult("gpu-0"))
	problem("claim ns/c could not be written, and its pod waits: the agent's account needs the verb patch on resourceclaims/status and associated-node:patch")
	until(t, func() bool { return !b.awaited(t) }, func() any { return "pods wait for conditions that cannot be written" })
	deleted("c")
	deleted("d")
	problem("are prepared when their containers start: the agent's account needs the verb patch")
	if got := messages(b.frontend.Problems()); strings.Contains(got, "ns/") {
		t.Errorf("of claims that are gone: %s", got)
	}
	mu.Lock()
	clear(refusals)
	mu.Unlock()
	b.allocate(t, "e", nil, slowResult("gpu-0"))
	until(t, func() bool { return b.awaited(t) && len(b.frontend.Problems()) == 0 }, func() any { return b.frontend.Problems() })
	b.stop()
	b.cluster.PrependReactor("list", "resourceclaims", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	b.start(t)
	problem("needs the verb")
	until(t, func() bool { return !b.awaited(t) }, func() any { return "pods wait for conditions that cannot be watched" })
}

// Verifies that what kubelet has of an earlier allocation is neither ended nor used for the next one while kubelet
// lists a pod with it, and that its late call to unprepare leaves the next one as it is.
func TestBindingAfterForcedDeletion(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]string{"the same device": "gpu-0", "another device": "gpu-2"} {
		t.Run(name, func(t *testing.T) {
			b := newBinding(t)
			until(t, func() bool { return b.awaited(t) }, func() any { return "the slices have no binding conditions" })
			b.allocate(t, "c", nil, slowResult("gpu-0"))
			b.want(t, "c", "gpu-0 accelmux.io/Prepared: ")
			if err := b.kubelet(t, "c"); err != nil {
				t.Fatal(err)
			}
			cdi := b.frontend.opts.Record.Get(driverName, "uid-c").Devices[0].CDI
			before := b.list(cdi)
			b.change(t, "c", func(c *resourceapi.ResourceClaim) {
				c.Status.Devices, c.Status.Allocation.AllocationTimestamp = nil, new(metav1.Now())
				c.Status.Allocation.Devices.Results[0].Device = next
			})
			until(t, func() bool { return b.list(cdi) > before+1 }, func() any { return "kubelet is not asked" })
			if b.conditions(t, "c") != "" || len(b.ended()) > 0 {
				t.Fatalf("kubelet has a pod with it: the conditions are %q, ended are %v", b.conditions(t, "c"), b.ended())
			}
			b.list()
			b.want(t, "c", next+" accelmux.io/Prepared: ")
			if err := b.frontend.running()[driverName].unprepare(t.Context(), "uid-c"); err != nil {
				t.Fatal(err)
			}
			if c := b.frontend.opts.Record.Get(driverName, "uid-c"); len(b.ended()) != 1 || c == nil || !c.Prepared || c.Devices[0].Name != next {
				t.Errorf("a late unprepare: ended are %v, the record has %v", b.ended(), c)
			}
			b.change(t, "c", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
			until(t, func() bool { return b.frontend.opts.Record.Get(driverName, "uid-c") == nil }, func() any { return "it is still prepared" })
		})
	}
}

// Verifies that what may pass is tried again, until the scheduler is about to give up, and that the condition then
// has the reason; and that no condition has the user delete a pod.
func TestBindingTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBinding(t)
	until(t, func() bool { return b.awaited(t) }, func() any { return "the slices have no binding conditions" })
	blocked := filepath.Join(b.dir, "claims")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.allocate(t, "unwritten", nil, slowResult("gpu-0"))
	until(t, func() bool { return len(b.ended()) > 0 }, func() any { return "it is not tried" })
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	b.want(t, "unwritten", "gpu-0 accelmux.io/Prepared: ")

	tries := 0
	b.lifecycle.backend = func(context.Context) error {
		if tries++; tries == 1 {
			return fmt.Errorf("backend mock: %w", supervisor.ErrNotRunning)
		}
		return nil
	}
	b.allocate(t, "restarting", nil, slowResult("gpu-0"))
	b.want(t, "restarting", "gpu-0 accelmux.io/Prepared: ")

	b.lifecycle.mu.Lock()
	b.lifecycle.held = &holders.HeldError{Allocation: holders.Allocation{Device: inventory.Key{Backend: "mock", ID: "GPU-2"}}}
	b.lifecycle.mu.Unlock()
	allocated := func(ago time.Duration) func(*resourceapi.ResourceClaim) {
		return func(c *resourceapi.ResourceClaim) {
			c.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now().Add(-ago)}
		}
	}
	b.allocate(t, "early", allocated(0), slowResult("gpu-2"))
	b.allocate(t, "late", allocated(slowLimit-time.Second), slowResult("gpu-2"))
	b.want(t, "late", "gpu-2 accelmux.io/PreparationFailed: device mock/GPU-2")
	if got := b.conditions(t, "early"); got != "" {
		t.Errorf("the conditions are %s", got)
	}
	b.lifecycle.mu.Lock()
	b.lifecycle.held = nil
	b.lifecycle.mu.Unlock()
	b.want(t, "early", "gpu-2 accelmux.io/Prepared: ")

	b.allocate(t, "gone", nil, slowResult("gpu-7"))
	b.want(t, "gone", "gpu-7 accelmux.io/PreparationFailed: ")
	if got, want := b.conditions(t, "gone"), "gpu-7 accelmux.io/PreparationFailed: device gpu-7 is not on this node"; got != want {
		t.Errorf("the conditions are %q, want %q", got, want)
	}
}
