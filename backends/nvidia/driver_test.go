package nvidia

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// parts are the library, the device nodes and the kernel module of a driver that comes and goes, for a rig.
type parts struct {
	*rig
	// away are the parts that are not there.
	away map[string]bool
}

const comingGPUs = 3

func newParts(t *testing.T) *parts {
	t.Helper()
	p := &parts{newRig(t, drivertest.New("H100 80GB", comingGPUs), comingGPUs), map[string]bool{}}
	for i := range comingGPUs {
		p.plug(i)
		p.file(fmt.Sprintf("Device Minor: \t %d\n", i), "proc", "driver", "nvidia", "gpus", bus(i), "information")
	}
	p.file("NVRM version: 1\n", "proc", "driver", "nvidia", "version")
	p.restart()
	return p
}

// restart has another process read the same machine.
func (p *parts) restart() {
	p.t.Helper()
	p.backend = newBackend(slog.New(slog.DiscardHandler), seams{exit: func(int) {}, uevents: p.kernel.Listen, open: func(o driver.Options) *driver.Driver {
		o.Load, o.Library, o.Timeout = p.load, "libnvidia-ml.so.1", 2*time.Second
		return driver.New(o)
	}})
	var err error
	if p.Server, err = sdk.NewServer(p.backend, nil); err != nil {
		p.t.Fatal(err)
	}
	p.configure(rarely)
	p.watch()
}

// load is as the library: it cannot be initialized without the control node, and lists GPUs by their nodes.
func (p *parts) load(string) (nvml.Interface, error) {
	if p.away["library"] {
		return nil, driver.ErrNoLibrary
	}
	if _, err := os.Stat(p.path("dev", "nvidiactl")); err != nil {
		return nil, driver.ErrNoDriver
	}
	p.lib.Plug(p.nodes())
	return p.lib, nil
}

// nodes is how many GPUs have a device node, from the first on.
func (p *parts) nodes() (n int) {
	for ; n < comingGPUs; n++ {
		if _, err := os.Stat(p.path("dev", fmt.Sprint("nvidia", n))); err != nil {
			break
		}
	}
	return n
}

// remove takes a part away, or has it back.
func (p *parts) remove(part string, away bool) {
	p.t.Helper()
	p.away[part] = away
	switch part {
	case "module":
		action, change := uevent.Add, p.lib.Reload
		if away {
			action, change = uevent.Remove, p.lib.Unload
			p.files.Remove("proc/driver/nvidia/version")
		} else {
			p.file(fmt.Sprintf("NVRM version: %v\n", time.Now()), "proc", "driver", "nvidia", "version")
		}
		change()
		for i := range comingGPUs {
			p.files.Remove("sys/bus/pci/devices/" + bus(i) + "/driver")
			if !away {
				p.plug(i)
			}
		}
		p.kernel.Send(action, "/module/nvidia", "module", nil)
	case "nodes":
		p.node("nvidiactl", !away)
		for i := range comingGPUs {
			p.node(fmt.Sprint("nvidia", i), !away)
		}
	}
}

// node makes a device node, or removes it.
func (p *parts) node(name string, there bool) {
	p.t.Helper()
	path := p.path("dev", name)
	var err error
	if there {
		err = os.WriteFile(path, nil, 0o600)
	} else if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err != nil {
		p.t.Error(err)
	}
}

// rest lets time pass, and receives inventories meanwhile.
func (p *parts) rest(d time.Duration) {
	p.t.Helper()
	for d > 0 {
		some := min(d, 30*time.Second)
		p.During(func() { <-time.After(some) })
		d -= some
	}
}

// check checks the last inventory: each GPU is listed, or could not be looked at; none is healthy without what it needs.
func (p *parts) check(when string) {
	p.t.Helper()
	healthy, nodes := 0, 0
	for i := range comingGPUs {
		_, noNode := os.Stat(p.path("dev", fmt.Sprint("nvidia", i)))
		if noNode == nil {
			nodes++
		}
		d := slices.IndexFunc(p.Last.GetDevices(), func(d *backendv1.Device) bool { return d.GetPciBusId() == bus(i) })
		unread := slices.ContainsFunc(p.Last.GetUnread(), func(u *backendv1.Unread) bool {
			return u.GetPciBusId() == bus(i) || u.GetDeviceId() == p.lib.GPUs[i].UUID || u.GetPciBusId() == "" && u.GetDeviceId() == ""
		})
		if d < 0 && !unread {
			p.t.Errorf("%s: GPU %d is gone: %v, %v", when, i, p.Last.GetDevices(), p.Last.GetUnread())
		}
		if d < 0 || healthAt(d, p.Last).GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY {
			continue
		}
		healthy++
		if noNode != nil || p.away["module"] {
			p.t.Errorf("%s: GPU %d is %v", when, i, healthAt(d, p.Last))
		}
	}
	there := !p.away["module"] && !p.away["nodes"] && !p.away["library"]
	if there && healthy != nodes {
		p.t.Errorf("%s: %d GPUs are healthy: %v, unread %v, problems %q", when, healthy, p.Last.GetDevices(), p.Last.GetUnread(), p.Last.GetProblems())
	}
}

// The library, the nodes and the module of the driver go in every order and are back in every order, with a process that goes
// on, and one that begins after any of the steps. No GPU is gone that is in the machine, none is healthy that cannot be used,
// and all are healthy within 2 s of the last part.
func TestDriverComesAndGoes(t *testing.T) {
	names := []string{"library", "nodes", "module"}
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for _, going := range orders {
		for _, coming := range orders {
			for restart := -1; restart < 2*len(names); restart++ {
				if restart >= 0 && !slices.Equal(going, coming) { // the other orders only with a process that goes on
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					p := newParts(t)
					p.Until("healthy GPUs", healthy(comingGPUs))
					p.rest(10 * time.Second)
					var done []string
					for i, k := range append(slices.Clone(going), coming...) {
						part, away := names[k], i < len(names)
						done = append(done, fmt.Sprintf("%s away=%v", part, away))
						p.remove(part, away)
						if i == restart {
							done = append(done, "restart")
							p.restart()
						}
						p.rest(2 * time.Second)
						p.rescan() // what no event reports is found at the interval
						p.check(strings.Join(done, ", "))
						if i == 2*len(names)-2 {
							p.rest(time.Minute) // pauses that grow are long before the last part is back
						}
					}
				})
			}
		}
	}
}

// rescan has the GPUs scanned and waits for the result while the driver is not complete.
func (p *parts) rescan() {
	p.t.Helper()
	if p.away["module"] || p.away["nodes"] || p.away["library"] {
		p.tells(uevent.Change, 0)
		p.rest(2 * time.Second)
	}
}

// A node that appears while another one vanishes: the GPU without a node is unhealthy, none is gone.
func TestNodesThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParts(t)
		p.Until("healthy GPUs", healthy(comingGPUs))
		for i := range comingGPUs {
			p.node(fmt.Sprint("nvidia", i), false)
			p.node(fmt.Sprint("nvidia", (i+comingGPUs-1)%comingGPUs), true)
			p.tells(uevent.Change, i)
			p.rest(5 * time.Second)
			p.check(fmt.Sprintf("without the node of GPU %d", i))
			if h := healthAt(i, p.Last); h.GetState() != backendv1.HealthState_HEALTH_STATE_UNHEALTHY || len(p.Last.GetDevices()) != comingGPUs {
				t.Errorf("GPU %d is %v", i, h)
			}
		}
		p.node(fmt.Sprint("nvidia", comingGPUs-1), true)
		p.rest(2 * time.Second)
		p.check("with all nodes")
	})
}
