package amd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/ras"
	"github.com/accelmux/accelmux/backends/amd/smi"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/manifests"
	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are settings with which a test need not wait.
const quick = `{"partitions": {"strategy": "mixed"}, "poll": "100ms", "rescan": "1s", "health": {"interval": "1s"}}`

// withEvents are quick, with KFD's events.
const withEvents = `{"partitions": {"strategy": "mixed"}, "poll": "100ms", "rescan": "1s", "health": {"interval": "1s", "events": true}}`

// rig is the backend behind its service, on a machine of a test.
type rig struct {
	*sdk.Server
	*sdktest.Watched
	t       *testing.T
	tree    *amdtree.Tree
	backend *Backend
	kernel  *ueventtest.Kernel
	events  *kfdEvents
	proc    string
	// state is the directory of the file with the errors that resets have cured.
	state string
	// revision is that of the settings.
	revision uint64
}

// newRig returns a backend on a machine, not yet configured. Tests change its seams.
func newRig(t *testing.T, m amdtree.Machine) *rig {
	t.Helper()
	tree := amdtree.New(t, m)
	r := &rig{
		t: t, tree: tree, kernel: &ueventtest.Kernel{}, events: &kfdEvents{files: map[uint32][]*io.PipeWriter{}},
		proc: t.TempDir(), state: t.TempDir(),
	}
	r.boot("1")
	r.backend = newBackend(slog.New(slog.DiscardHandler), seams{
		read: gpu.Read, names: func() *gpu.Names { return nil },
		counters: ras.Read,
		events:   func(string) smi.Source { return r.events },
		exporter: func(string) lister { return nil },
		uevents:  r.kernel.Listen,
	})
	return r
}

// start is newRig, configured and watched.
func start(t *testing.T, m amdtree.Machine, settings string) *rig {
	t.Helper()
	r := newRig(t, m)
	r.watch(settings)
	return r
}

func (r *rig) watch(settings string) {
	r.t.Helper()
	var err error
	if r.Server, err = sdk.NewServer(r.backend, nil); err != nil {
		r.t.Fatal(err)
	}
	r.configure(settings)
	r.Watched = sdktest.Watch(r.t, r.Server, 200*time.Millisecond, patience.Long)
	r.Check = manifests.Declared(r.t, manifests.Load(r.t, "manifest.yaml"), "{}")
}

func (r *rig) configure(settings string) {
	r.t.Helper()
	r.revision++
	settings = strings.Replace(settings, `"health": {`, fmt.Sprintf(`"health": {"stateFile": "%s/errors.json", `, r.state), 1)
	res, err := r.Configure(r.t.Context(), &backendv1.ConfigureRequest{
		SettingsJson: []byte(settings), Revision: r.revision,
		Paths: &backendv1.HostPaths{Sysfs: r.tree.Sysfs(), Devfs: r.tree.Devfs(), Procfs: r.proc},
	})
	if err != nil || len(res.GetErrors()) > 0 {
		r.t.Fatalf("Configure(%s): %v, %v", settings, err, res.GetErrors())
	}
}

// boot sets the ID of the boot.
func (r *rig) boot(id string) {
	r.t.Helper()
	r.file(id+"\n", r.proc, "sys/kernel/random/boot_id")
}

func (r *rig) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) file(text string, parts ...string) {
	r.t.Helper()
	path := filepath.Join(parts...)
	r.do(os.MkdirAll(filepath.Dir(path), 0o755))
	r.do(os.WriteFile(path, []byte(text), 0o600))
}

func device(inv *backendv1.Inventory, id string) *backendv1.Device {
	for _, d := range inv.GetDevices() {
		if d.GetId() == id {
			return d
		}
	}
	return nil
}

// healthy reports whether there are n devices, all healthy.
func healthy(n int) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool {
		for _, d := range inv.GetDevices() {
			if d.GetHealth().GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY {
				return false
			}
		}
		return len(inv.GetDevices()) == n
	}
}

// onlyBad reports whether there are n devices, and those of one PCI address, and no
// others, have a fault.
func onlyBad(n int, at, code string) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool {
		for _, d := range inv.GetDevices() {
			want := ""
			if d.GetPciBusId() == at {
				want = code
			}
			if d.GetHealth().GetCode() != want {
				return false
			}
		}
		return len(inv.GetDevices()) == n
	}
}

// kfdEvents are KFD's events as a test sends them.
type kfdEvents struct {
	mu    sync.Mutex
	files map[uint32][]*io.PipeWriter
}

// Open implements smi.Source.
func (k *kfdEvents) Open(id uint32, _ uint64) (io.ReadCloser, error) {
	read, write := io.Pipe()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files[id] = append(k.files[id], write)
	return read, nil
}

// opened reports whether the events of a GPU were opened.
func (k *kfdEvents) opened() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.files) > 0
}

// send sends a line to the streams of a GPU, and reports whether one received it.
func (k *kfdEvents) send(id uint32, line string) bool {
	k.mu.Lock()
	files := k.files[id]
	k.mu.Unlock()
	received := false
	for _, file := range files {
		_, err := io.WriteString(file, line+"\n")
		received = received || err == nil
	}
	return received
}

// end ends the events of a GPU as an unloaded driver does.
func (k *kfdEvents) end(id uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, file := range k.files[id] {
		_ = file.CloseWithError(errors.New("no such device"))
	}
	delete(k.files, id)
}

// eventually waits for what no inventory shows, and takes the stream's events
// meanwhile.
func (r *rig) eventually(what string, done func() bool) {
	r.t.Helper()
	late := time.After(patience.Long)
	for !done() {
		select {
		case e := <-r.Events: // a heartbeat, if nothing else
			if inv := e.GetInventory(); inv != nil {
				r.Last = inv
			}
		case <-late:
			r.t.Fatalf("waited %s until %s", patience.Long, what)
		}
	}
}
