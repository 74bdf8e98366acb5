package health

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testDelay    = 4 * time.Second
	testHoldover = time.Minute

	self        = backendv1.Recovery_RECOVERY_SELF
	reset       = backendv1.Recovery_RECOVERY_RESET
	reboot      = backendv1.Recovery_RECOVERY_REBOOT
	replacement = backendv1.Recovery_RECOVERY_REPLACEMENT
)

// rig is a judge behind a real store, with a clock that the test moves and one backend.
type rig struct {
	t       failer
	now     time.Time
	path    string
	boot    string
	store   *inventory.Store
	judge   *Judge
	devices map[string]*backendv1.Device
	unread  []*backendv1.Unread
	wireGen uint64
	last    *View
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func newRig(t testing.TB, ids ...string) *rig {
	return newRigIn(t, t.TempDir(), ids...)
}

func newRigIn(t failer, dir string, ids ...string) *rig {
	r := &rig{
		t: t, now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), path: filepath.Join(dir, "health.json"), boot: "b00t-1",
		devices: map[string]*backendv1.Device{},
	}
	for _, id := range ids {
		r.plug(id)
	}
	r.newStore()
	r.open()
	return r
}

func (r *rig) newStore() {
	scope := inventory.EditScope{Devices: []string{"/dev/**"}}
	r.store, r.wireGen = inventory.NewStore(r.clock), 0
	r.store.SetPolicies(map[string]inventory.Policy{"mock": {Allowed: scope}})
	r.store.Describe("mock", inventory.Description{Name: "mock", Classes: []string{"gpu"}, Edits: scope})
}

// restart restarts the whole process, backends included.
func (r *rig) restart() {
	r.newStore()
	r.open()
	r.report()
}

func (r *rig) clock() time.Time { return r.now }

func (r *rig) open() {
	r.t.Helper()
	j, err := Open(Options{Path: r.path, BootID: r.boot, Now: r.clock})
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	j.SetPolicies(map[string]BackendPolicy{"mock": {Holdover: testHoldover, Delay: testDelay}})
	r.judge = j
}

func (r *rig) plug(id string) *backendv1.Device {
	d := &backendv1.Device{
		Id: id, Class: "gpu", Health: healthy(),
		Edits: &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/null"}}},
	}
	r.devices[id] = d
	return d
}

// report sends the inventory without judging.
func (r *rig) report() {
	r.t.Helper()
	r.wireGen++
	w := &backendv1.Inventory{Generation: r.wireGen, Unread: r.unread}
	for _, id := range slices.Sorted(maps.Keys(r.devices)) {
		w.Devices = append(w.Devices, r.devices[id])
	}
	report, err := inventory.EncodeReport(w)
	if err == nil {
		err = r.store.Report("mock", report)
	}
	if err != nil {
		r.t.Fatalf("Report: %v", err)
	}
}

// say reports one device's health without judging.
func (r *rig) say(id string, h *backendv1.Health) {
	r.t.Helper()
	old := r.devices[id]
	r.devices[id] = &backendv1.Device{Id: id, Class: "gpu", Health: h, Edits: old.Edits, ParentId: old.ParentId, ResetGroup: old.ResetGroup}
	r.report()
}

func (r *rig) judgeNow() *View {
	r.t.Helper()
	r.last = r.judge.Judge(r.store.Snapshot())
	return r.last
}

func (r *rig) wait(d time.Duration) { r.now = r.now.Add(d) }

// codes returns a device's faults as "code:recovery", with "@from" if it is its parent's.
func codes(v *View, id string) string {
	var out []string
	for _, f := range v.Verdict(key(id)).Faults {
		s := f.Code + ":" + f.Recovery.String()
		if f.From != "" {
			s += "@" + f.From
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// want judges and compares the faults of one device.
func (r *rig) want(id, codesWanted string) *View {
	r.t.Helper()
	v := r.judgeNow()
	if got := codes(v, id); got != codesWanted {
		r.t.Errorf("%s has the faults %q, want %q", id, got, codesWanted)
	}
	if verdict := v.Verdict(key(id)); verdict.Healthy != (codesWanted == "") {
		r.t.Errorf("%s: healthy is %v with the faults %q", id, verdict.Healthy, codesWanted)
	}
	return v
}

func key(id string) inventory.Key { return inventory.Key{Backend: "mock", ID: id} }

func healthy() *backendv1.Health {
	return &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY}
}

func recovered() *backendv1.Health {
	return &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY, Recovered: true}
}

func unknown() *backendv1.Health {
	return &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_UNKNOWN}
}

func faulty(code string, r backendv1.Recovery) *backendv1.Health {
	return &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY, Code: code, Message: "about " + code, Recovery: r}
}

// dirNames returns the files of a directory.
func dirNames(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// seal puts the right header in front of a payload.
func seal(payload string) string {
	return fmt.Sprintf("accelmux-health/1 sha256:%x\n%s", sha256.Sum256([]byte(payload)), payload)
}
