package agent

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/holders"
)

// persistent agents try soon again what the disk did not take.
func persistent(options *agent.Options) {
	options.Timing.CDI = cdi.Timing{RetryMin: 50 * time.Millisecond, RetryMax: 200 * time.Millisecond, Poll: 100 * time.Millisecond}
	options.Timing.Usage = holders.Timing{
		Quiet: time.Millisecond, Grace: time.Second, Unseen: time.Second, RetryMin: 50 * time.Millisecond, RetryMax: 200 * time.Millisecond,
	}
}

// wantResolves fails unless a container runtime finds the device.
func (n *node) wantResolves(devices ...string) {
	n.Helper()
	cache, err := cdilib.NewCache(cdilib.WithSpecDirs(n.path("cdi")), cdilib.WithAutoRefresh(false))
	if err != nil {
		n.Fatal(err)
	}
	for _, id := range devices {
		if cache.GetDevice("mock.accelmux.io/gpu="+id) == nil {
			n.Errorf("%s is not defined: %v", id, cache.GetErrors())
		}
	}
}

// A CDI directory that cannot be written costs the devices that come meanwhile, and says
// which file and why. Those that are defined go on, also over a restart of the agent,
// and all are there soon after the directory is mended.
func TestCDIDirectory(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	for name, c := range map[string]struct {
		damage func(n *node) (mended func())
		says   string
	}{
		"full":      {func(n *node) func() { return n.fill("cdi") }, "no space left on device"},
		"read-only": {func(n *node) func() { return n.readOnly("cdi") }, "read-only file system"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.disk("128k", "cdi")
			n.startKubelet()
			n.configure(oneBackend)
			options := n.options()
			persistent(&options)
			n.startAgentWith(options)
			n.wantCounts(gpu, 4, 4)
			held := n.allocate("before", gpu, 2)
			n.mark(gpu)
			mended := c.damage(n)
			// More rounds than a pause that doubles with each would stand.
			for range 8 {
				n.scenario("devices: {mock-3: {fault: {code: x, recovery: self}}}\nplug: [{count: 2, id: 'new-{{.Index}}'}]")
				n.wantCounts(gpu, 6, 3)
				n.scenario("plug: [{count: 2, id: 'new-{{.Index}}'}]")
				n.wantCounts(gpu, 6, 4)
			}
			n.wantProblem("new-0", "cdi/accelmux-mock-gpu.json", c.says)
			n.allocate("meanwhile", gpu, 2)
			n.wantNoDip(gpu, 3)
			n.wantResolves(append(held, "mock-0", "mock-1", "mock-2", "mock-3")...)

			n.stopAgent()
			n.startAgentWith(options)
			n.wantCounts(gpu, 6, 4)
			mended()
			n.wantCounts(gpu, 6, 6)
			n.wantResolves("new-0", "new-1")
			n.eventually("no problem is left", func() bool { return n.problems() == "" })
		})
	}
}

// A CDI directory that is deleted is made again, with all that containers may hold.
func TestCDIDirectoryDeleted(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend, persistent)
	n.mark(gpu)
	n.allocate("pod", gpu, 1)
	n.removeAll("cdi")
	n.eventually("the specs are back", func() bool { return len(n.definitions("mock", "gpu")) == 4 })
	n.wantResolves("mock-0", "mock-1", "mock-2", "mock-3")
	n.wantNoDip(gpu, 4)
	n.allocate("after", gpu, 3)
}

// A CDI name that a container holds is defined again also by a later agent whose
// configuration does not have the backend any more: kubelet gives a container that restarts
// the name that it got first. Without a holder the definition goes.
func TestCDIDirectoryDeletedAfterTheBackendWasRemoved(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend, persistent)
	held := n.allocate("pod", gpu, 1)
	n.stopAgent()
	n.configure(strings.Replace(oneBackend, "name: mock\n", "name: other\n        command: accelmux-backend-mock\n", 1))
	options := n.options()
	quickUsage(&options)
	n.startAgentWith(options)
	n.eventually("the other backend's specs are there", func() bool { return len(n.definitions("other", "gpu")) == 4 })
	n.removeAll("cdi")
	n.eventually("the held definition is back", func() bool { return len(n.definitions("mock", "gpu")) == 1 })
	n.wantResolves(held...)
	n.kubelet.Free("pod")
	n.eventually("nothing is defined for the removed backend", func() bool { return len(n.definitions("mock", "gpu")) == 0 })
}

// Another owner's CDI spec that defines one of our names costs that device, as runtimes
// find neither; status names the file, and the device is back when the file is gone.
func TestCDIForeignSpec(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend, persistent)
	n.mark(gpu)
	foreign := `{"cdiVersion": "0.6.0", "kind": "mock.accelmux.io/gpu", "devices": [{"name": "mock-1", "containerEdits": {"env": ["A=B"]}}]}`
	if err := os.WriteFile(n.path("cdi", "foreign.json"), []byte(foreign), 0o644); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(gpu, 4, 3)
	n.wantProblem("mock-1", "is also defined in", "cdi/foreign.json", "remove that file")
	n.allocate("pod", gpu, 3)
	n.wantNoDip(gpu, 3)
	if err := os.Remove(n.path("cdi", "foreign.json")); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(gpu, 4, 4)
	n.allocate("after", gpu, 1)
}

// A state file that cannot be used costs what only it knew: the agent starts, says what
// is wrong with which file and where it is now, and serves.
func TestStateFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(text []byte) []byte
		says   string
	}{
		"truncated":          {func(text []byte) []byte { return text[:len(text)-10] }, "its content does not match its checksum"},
		"cut to nothing":     {func([]byte) []byte { return nil }, "does not start with the header of"},
		"of a newer version": {func(text []byte) []byte { return bytes.Replace(text, []byte(" "), []byte("9 "), 1) }, `9"; this program reads only "`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startNode(t, 4, oneBackend)
			n.scenario("devices: {mock-0: {fault: {code: x, recovery: reboot}}}")
			n.wantCounts(gpu, 4, 3)
			held := n.allocate("pod", gpu, 1)
			n.eventually("both are on disk", func() bool { return n.saved("health", "mock-0") && n.saved("usage", held[0]) })
			n.stopAgent()
			for _, file := range []string{"health", "usage"} {
				text, err := os.ReadFile(n.path("state", file))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(n.path("state", file), c.damage(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			n.startAgent()
			n.wantCounts(gpu, 4, 3)
			for _, file := range []string{"health", "usage"} {
				n.wantProblem("state/"+file, c.says, file+".corrupt")
			}
			n.wantResolves(held...)
			n.allocate("after", gpu, 2)
		})
	}
}

// saved reports whether a state file has the text.
func (n *node) saved(file, text string) bool {
	content, err := os.ReadFile(n.path("state", file))
	return err == nil && strings.Contains(string(content), text)
}

// Where the state cannot be written, or nothing at all, what runs goes on and kubelet is
// told of every fault; status names the files and says what it costs. With room again,
// all is written, and known after a restart.
func TestDisk(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	for name, c := range map[string]diskDamage{
		"state directory unwritable": {[]string{"state"}, func(n *node, disk string) func() { return n.readOnly(disk) }, "read-only file system", false, false},
		"full everywhere": {
			[]string{"state", "cdi", "run", "kubelet/device-plugins", "kubelet/plugins_registry", "kubelet/pod-resources"},
			func(n *node, disk string) func() { return n.fill(disk) }, "no space left on device", true, true,
		},
	} {
		t.Run(name, func(t *testing.T) { testDisk(t, c) })
	}
}

// diskDamage is what is wrong with disks of the node's.
type diskDamage struct {
	disks  []string
	damage func(n *node, disk string) (mended func())
	says   string
	// kubelet restarts meanwhile.
	kubelet bool
	// reserved: there is room that the state of health has reserved.
	reserved bool
}

func testDisk(t *testing.T, c diskDamage) {
	n := newNode(t)
	for _, disk := range c.disks {
		n.disk("1m", disk)
	}
	n.startKubelet()
	n.configure(twoBackends)
	options := n.options()
	persistent(&options)
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 4)
	n.wantCounts(fpga, 2, 2)
	n.mark(fpga)
	var mended []func()
	for _, disk := range c.disks {
		mended = append(mended, c.damage(n, disk))
	}
	n.scenario("devices: {mock-0: {fault: {code: lost, recovery: reboot}}}")
	n.wantCounts(gpu, 4, 3)
	held := n.allocate("meanwhile", gpu, 1)
	if c.reserved {
		n.eventually("both are in the reserved room", func() bool { return n.saved("health", "mock-0") && n.saved("usage", held[0]) })
	} else {
		n.wantProblem("health", "is not being saved", c.says)
		n.wantProblem("record of allocations cannot be written", c.says)
	}
	n.crash()
	n.wantNoDip(fpga, 2)
	if c.kubelet {
		if err := n.kubelet.Restart(); err != nil {
			t.Fatal(err)
		}
		n.wantCounts(gpu, 4, 3)
		n.wantCounts(fpga, 2, 2)
	}
	for _, m := range mended {
		m()
	}
	n.eventually("all is written", func() bool {
		return !strings.Contains(n.problems(), "saved") && !strings.Contains(n.problems(), "cannot be written")
	})
	n.scenario("")
	n.stopAgent()
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 3)
	n.wantFault("mock-0", "lost")
	n.eventually("the holder is known", func() bool { return len(n.device(held[0]).Holders) == 1 })
}

// fpga is the resource of twoBackends that nothing happens to.
const fpga = "example.com/fpga"

// crash kills the process of backend mock, and waits until another one runs.
func (n *node) crash() {
	n.Helper()
	before := n.backend("mock")
	process, err := os.FindProcess(before.PID)
	if err != nil {
		n.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		n.Fatal(err)
	}
	n.eventually("backend mock runs again", func() bool {
		now := n.backend("mock")
		return now.PID != 0 && now.PID != before.PID && now.Devices == before.Devices && now.State == "running"
	})
}
