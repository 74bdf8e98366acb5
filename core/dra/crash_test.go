package dra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/openfiles"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

var errCrash = errors.New("crash")

// machine is a node with a driver, the real parts below it, and a backend whose device remembers for
// whom it was prepared. The agent crashes at a step: each write and each begin and end of a backend's
// call is one.
type machine struct {
	t    *testing.T
	dir  string
	boot int
	// hooks: the backend is called to prepare and to release. resets: the device is reset after use.
	hooks, resets bool
	// unlisted: the backend does not list the device any more.
	unlisted bool

	mu      sync.Mutex
	step    int
	crashAt int // 0: never
	crashed bool
	// crashedAt is crashAt of before.
	crashedAt int
	// prepared is the claim for which the device is prepared, used the one with which kubelet has
	// started containers; "" for none.
	prepared, used string
	// dirty is the claim that used the device last, "" after a reset; unprepared: it is unprepared.
	dirty      string
	unprepared bool

	driver *Driver
	book   *holders.Book
	cdi    *cdi.Store
	// running ends with the agent.
	running context.Context //nolint:containedctx // of calls of kubelet's
	cancel  context.CancelCauseFunc
	stop    func()
}

// alive is one step; with an error the agent has crashed.
func (m *machine) alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.step++
	m.crashed = m.crashed || m.step == m.crashAt
	if m.crashed {
		m.cancel(errCrash)
		return errCrash
	}
	return nil
}

// call is a call of the backend: it has an effect unless the agent crashed before.
func (m *machine) call(ended, effect func()) error {
	defer ended()
	if err := m.alive(); err != nil {
		return err
	}
	m.mu.Lock()
	effect()
	m.mu.Unlock()
	return m.alive()
}

func (m *machine) Prepare(_ context.Context, _ string, r *backendv1.PrepareRequest, _ time.Duration, ended func()) (*backendv1.PrepareResponse, error) {
	return &backendv1.PrepareResponse{}, m.call(ended, func() {
		if m.used != "" && m.used != r.GetHolder().GetId() {
			m.t.Errorf("the device is prepared for %s while %s uses it", r.GetHolder().GetId(), m.used)
		}
		m.prepared = r.GetHolder().GetId()
	})
}

func (m *machine) Release(_ context.Context, _ string, r *backendv1.ReleaseRequest, ended func()) (*backendv1.ReleaseResponse, error) {
	return &backendv1.ReleaseResponse{Results: []*backendv1.ReleaseResult{{DeviceId: "GPU-0", Released: true}}}, m.call(ended, func() {
		if m.used == r.GetHolder().GetId() {
			m.t.Errorf("the device of %s is released while it is used", m.used)
		}
		if m.prepared == r.GetHolder().GetId() {
			m.prepared = ""
		}
	})
}

func (m *machine) Reset(_ context.Context, _ string, _ []string, ended func()) (*backendv1.ResetResponse, error) {
	return &backendv1.ResetResponse{Results: []*backendv1.ResetResult{{DeviceId: "GPU-0", Recovered: true}}}, m.call(ended, func() {
		if m.used != "" || m.prepared != "" {
			m.t.Errorf("the device is reset while it is used by %q, prepared for %q", m.used, m.prepared)
		}
		m.dirty = ""
	})
}

func (m *machine) Users(context.Context, string, []inventory.DeviceNode) (openfiles.Processes, error) {
	return nil, nil
}

func (m *machine) ResetDone(inventory.Key, bool, string) {}

func (m *machine) Excuse(inventory.Key, time.Time) {}

// start starts the agent.
func (m *machine) start() {
	m.running, m.cancel = context.WithCancelCause(context.Background())
	var current *round.Round
	disk := checkpoint.Writer{Unsynced: true, Before: func(checkpoint.Op, string) error { return m.alive() }}
	boot := fmt.Sprint("boot-", m.boot)
	var err error
	m.book, err = holders.Open(holders.Options{
		Path: filepath.Join(m.dir, "usage"), BootID: boot, Kubelet: podresources.New(podresources.Options{Socket: "/nowhere"}), Disk: disk,
		Resolve:       func(string, string) (inventory.Key, bool) { return inventory.Key{}, false },
		ResetAfterUse: func(key inventory.Key) bool { return current.ResetsAfterUse(key) },
	})
	if err == nil {
		m.cdi, err = cdi.Open(cdi.Options{Dir: filepath.Join(m.dir, "cdi"), Disk: disk})
	}
	if err != nil {
		m.t.Fatal(err)
	}
	d := device("GPU-0")
	d.Hooks, d.Parent, d.ResetGroup = inventory.Hooks{Prepare: m.hooks, Release: m.hooks}, "card", "link"
	backend := &inventory.Backend{Name: "mock", Description: inventory.Description{Reset: true}, Devices: []*inventory.Device{d.Device}}
	if m.unlisted {
		backend.Devices = nil
	}
	served := &resource.Resource{Resource: config.Resource{Name: "example.com/gpu"}, Devices: []resource.Device{{Device: d.Device}}}
	if m.resets {
		served.Reset = config.ResetDevicesAfterUse
	}
	current = round.New(round.Round{
		Profile:  &config.Profile{Backends: []config.Backend{{Name: "mock", Recovery: config.RecoveryPolicy{Reset: config.ResetAuto}}}},
		Snapshot: &inventory.Snapshot{Backends: []*inventory.Backend{backend}}, Health: &health.View{}, Table: &resource.Table{Resources: []*resource.Resource{served}},
	})
	var l *lifecycle.Lifecycle
	l = lifecycle.New(lifecycle.Options{
		Book: m.book, Backends: m, Definitions: m.cdi, Health: m, Round: func() *round.Round { return current },
		Changed: func() { l.Update() }, Released: func(inventory.Key, error) {}, Reset: func(string, error) {}, ReleaseBackoff: time.Millisecond, ResetBackoff: time.Millisecond,
	})
	m.driver = &Driver{
		opts: Options{Name: driverName, NodeName: node, BootID: boot, Lifecycle: l, Record: m.book.Claims(), Answered: func(Call, string, time.Duration, error) {}},
		log:  slog.New(slog.DiscardHandler), devices: map[string]resource.Device{"gpu-0": d}, publication: Publication{Backend: backend},
	}
	NewReconciler(ReconcilerOptions{Record: m.book.Claims(), Lifecycle: l, BootID: boot}).Restore()
	var running sync.WaitGroup
	running.Go(func() { _ = m.book.Run(m.running) })
	running.Go(func() { _ = l.Run(m.running) })
	running.Go(func() {
		for m.running.Err() == nil {
			select {
			case <-m.book.Changed():
				l.Update()
			case <-m.running.Done():
			}
		}
	})
	m.stop = func() {
		m.cancel(nil)
		running.Wait()
		_ = m.cdi.Close(nil) // its lock
	}
}

// restarted starts the agent again if it has crashed, possibly with the whole machine.
func (m *machine) restarted(reboot bool) bool {
	m.mu.Lock()
	crashed := m.crashed
	m.mu.Unlock()
	if !crashed {
		return false
	}
	m.stop()
	m.crashed, m.crashedAt, m.crashAt = false, m.crashAt, 0
	if reboot {
		m.boot++
		m.prepared, m.used, m.dirty = "", "", ""
		m.damageSpecs()
	}
	m.start()
	return true
}

// damageSpecs leaves the first half of each spec, as a power cut may.
func (m *machine) damageSpecs() {
	specs, err := filepath.Glob(filepath.Join(m.dir, "cdi", "*.json"))
	for _, spec := range specs {
		content, readErr := os.ReadFile(spec)
		err = errors.Join(err, readErr, os.WriteFile(spec, content[:len(content)/2], 0o600))
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func claimOf(name string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Status: resourceapi.ResourceClaimStatus{
		Allocation:  &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result("a", "gpu-0")}}},
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "pod"}},
	}}
}

// prepare calls until the claim is prepared, as kubelet does, or, if the pod is deleted after a crash,
// until then.
func (m *machine) prepare(name string, reboot, deleted bool) {
	for range 3 {
		prepared, err := m.driver.prepare(m.running, claimOf(name), false, 0)
		if err == nil {
			m.mu.Lock()
			if m.resets && m.dirty != "" && (m.dirty != name || m.unprepared) && !m.crashed {
				m.t.Errorf("claim %s is answered, but the device was not reset", name)
			}
			m.used, m.unprepared = name, false
			if m.hooks && m.prepared != name && !m.crashed {
				m.t.Errorf("claim %s is answered, but the device is prepared for %q", name, m.prepared)
			}
			m.mu.Unlock()
			m.checkUsed(name, prepared)
			return
		}
		if !m.restarted(reboot) {
			m.t.Fatalf("prepare %s: %v", name, err)
		}
		if deleted {
			return
		}
	}
	m.t.Fatalf("%s is not prepared", name)
}

// checkUsed checks that a claim that is used holds its device, and that a runtime finds its definition.
func (m *machine) checkUsed(name string, c *holders.ClaimRecord) {
	runtime, err := cdilib.NewCache(cdilib.WithSpecDirs(filepath.Join(m.dir, "cdi")), cdilib.WithAutoRefresh(false))
	if err != nil {
		m.t.Fatal(err)
	}
	if defined, held := runtime.GetDevice(c.Devices[0].CDI) != nil, m.book.Held(c.Devices[0].Key()); !defined || !held {
		m.t.Errorf("claim %s is used; its device is defined: %v, held: %v", name, defined, held)
	}
}

// unprepare calls until the claim is unprepared, or, if kubelet restarts with the agent and another pod
// uses the claim, until then.
func (m *machine) unprepare(name string, reboot, another bool) {
	m.mu.Lock()
	if m.used != "" {
		m.used, m.dirty = "", m.used
	}
	m.mu.Unlock()
	for range 3 {
		err := m.driver.unprepare(m.t.Context(), types.UID(name))
		if err == nil {
			m.unprepared = true
			return
		}
		if !m.restarted(reboot) {
			m.t.Fatalf("unprepare %s: %v", name, err)
		}
		if another {
			return
		}
	}
	m.t.Fatalf("%s is not unprepared", name)
}

// Verifies that whatever step of a prepare or an unprepare is the last before a crash of the agent or of
// the machine, and whether the pod is there after it or not, or another one: a claim that kubelet got an answer for has
// its device, prepared and defined; no other claim gets the device; and in the end it is released.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, after := range []struct {
		name                     string
		reboot, deleted, another bool
	}{
		{"retried", false, false, false}, {"deleted", false, true, false}, {"another pod", false, false, true},
		{"rebooted", true, false, false}, {"rebooted and deleted", true, true, false}, {"rebooted and another pod", true, false, true},
	} {
		t.Run(after.name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range []struct{ hooks, resets bool }{{true, false}, {true, true}, {false, true}} {
				for at := 1; crashes(t, at, kind.hooks, kind.resets, after.reboot, after.deleted, after.another); at++ {
				}
			}
		})
	}
}

// crashes has a machine crash at a step, and reports whether it came to that step.
func crashes(t *testing.T, at int, hooks, resets, reboot, deleted, another bool) bool {
	m := &machine{t: t, dir: t.TempDir(), hooks: hooks, resets: resets, crashAt: at}
	m.start()
	m.run(reboot, deleted, another)
	m.stop()
	if t.Failed() {
		t.Fatalf("crash at step %d, with hooks: %v, with resets: %v", at, hooks, resets)
	}
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	return m.crashAt == 0
}

// run has two pods one after the other use a claim, while another claim tries to get its device, and
// then that one.
func (m *machine) run(reboot, deleted, another bool) {
	for i := range 2 {
		m.prepare("x", reboot, deleted)
		m.restarted(reboot)
		if m.used != "" {
			if _, err := m.driver.prepare(m.running, claimOf("y"), false, 0); err == nil {
				m.t.Error("the device is given out twice")
			}
			if m.restarted(reboot); m.used != "" {
				m.checkUsed("x", m.driver.opts.Record.Get(driverName, "x"))
			}
		}
		m.unprepare("x", reboot, another && i == 0)
	}
	m.prepare("y", reboot, deleted)
	m.unprepare("y", reboot, false)
	until(m.t, func() bool {
		m.restarted(reboot)
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.prepared == "" && !m.book.Held(inventory.Key{Backend: "mock", ID: "GPU-0"})
	}, func() any {
		return fmt.Sprintf("crash at step %d: the device is not released: it is prepared for %q", m.crashedAt, m.prepared)
	})
	if all := m.driver.opts.Record.All(); len(all) > 0 {
		m.t.Errorf("in the record are %v", all)
	}
}

// Verifies that a reset does not reach a device that a claim has, by its group or its parent, also if the agent has
// restarted since and the backend no longer lists the device: at whatever step the agent crashed.
func TestResetScopeOfAClaimSurvivesARestart(t *testing.T) {
	t.Parallel()
	device := inventory.Key{Backend: "mock", ID: "GPU-0"}
	for _, hooks := range []bool{false, true} {
		for at := 0; ; at++ { // 0: after the answer
			m := &machine{t: t, dir: t.TempDir(), hooks: hooks, crashAt: at}
			m.start()
			_, err := m.driver.prepare(m.running, claimOf("x"), false, 0)
			m.stop()
			m.crashed, m.crashAt, m.unlisted = false, 0, true
			m.start()
			held := len(m.book.AllocationsOf(device)) > 0
			if scope := m.book.ResetScopes()[device]; held && (scope.Group != "link" || !slices.Equal(scope.Parents, []string{"card"})) {
				t.Errorf("crash at step %d, hooks %v: the scope of the device is %+v", at, hooks, scope)
			}
			m.stop()
			if at == 0 && (err != nil || !held) {
				t.Errorf("hooks %v: the device is held: %v; %v", hooks, held, err)
			}
			if at > 0 && err == nil {
				break
			}
		}
	}
}
