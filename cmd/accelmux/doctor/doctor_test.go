package doctor

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/pcibus"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/test/devicetree"
)

// tree is a GPU with its driver and node, a CDI spec, and containerd 2 without a configuration file.
const tree = `
sys/devices/pci0000:00/0000:05:00.0/vendor: 0x1002
sys/devices/pci0000:00/0000:05:00.0/device: 0x74a1
sys/devices/pci0000:00/0000:05:00.0/class: 0x120000
sys/devices/pci0000:00/0000:05:00.0/driver -> ../../../bus/pci/drivers/amdgpu
sys/devices/pci0000:00/0000:05:00.0/drm/card0/uevent: MAJOR=226\nDEVNAME=dri/card0
sys/bus/pci/devices/0000:05:00.0 -> ../../../devices/pci0000:00/0000:05:00.0
sys/bus/pci/drivers/amdgpu/
dev/dri/card0: c 226:0
cdi/amd.json: {"cdiVersion":"0.6.0","kind":"amd.accelmux.io/gpu","devices":[{"name":"g0","containerEdits":{"env":["A=1"]}}]}
kubelet/device-plugins/
kubelet/pod-resources/
`

// serving returns the tree's node with an agent that serves the GPU.
func serving(t *testing.T, root string) Node {
	t.Helper()
	n := without(t, root)
	n.AgentErr = nil
	n.Report = &status.Report{
		Role: status.RoleActive, Config: profile.Status{Path: "node.yaml", Profile: "default"},
		Backends:  []status.Backend{{Name: "amd", State: "running"}},
		Resources: []status.Resource{{Name: "amd.com/gpu", API: "devicePlugin", State: "serving", Injection: "auto", Units: 1, Healthy: 1}},
	}
	n.Cluster = &Cluster{
		Node: "n1", Capacity: map[string]int64{"amd.com/gpu": 1}, Allocatable: map[string]int64{"amd.com/gpu": 1},
		Published: map[string]int{"amd.accelmux.io": 1},
	}
	n.Devices = []listing.Device{{
		Backend: "amd", ID: "g0", Class: "gpu", Resource: "amd.com/gpu", Healthy: true,
		PCIBusID: "0000:05:00.0", CDI: "amd.accelmux.io/gpu=g0",
	}}
	return n
}

// without returns the tree's node without an agent.
func without(t *testing.T, root string) Node {
	t.Helper()
	for _, dir := range []string{"device-plugins", "pod-resources"} {
		listener, err := net.Listen("unix", filepath.Join(root, "kubelet", dir, "kubelet.sock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
	}
	return Node{
		Root: root, Sysfs: filepath.Join(root, "sys"), Devfs: filepath.Join(root, "dev"), Procfs: filepath.Join(root, "proc"), CDIDir: filepath.Join(root, "cdi"),
		Hardware:   pcibus.Table{{Backend: "amd", Vendor: "1002", Class: "12"}, {Backend: "nvidia", Vendor: "10de"}},
		KubeletDir: filepath.Join(root, "kubelet"), KubeletRootDir: filepath.Join(root, "kubelet"),
		Runtime: installed(root, "containerd containerd.io v2.0.2 c507a02"), Config: &config.NodeConfig{Profiles: []config.Profile{{Name: "default"}}},
		ConfigPath: "node.yaml", AgentErr: errors.New("no agent answers"),
	}
}

func installed(root, containerd string) Runtime {
	return Runtime{ContainerdConfig: filepath.Join(root, "containerd/config.toml"), SpecDirs: []string{filepath.Join(root, "cdi")}, Version: func(program string) (string, error) {
		if program == "containerd" && containerd != "" {
			return containerd, nil
		}
		return "", exec.ErrNotFound
	}}
}

const nvidiaDriver = `
sys/devices/pci0000:00/0000:05:00.0/vendor: 0x10de
- sys/devices/pci0000:00/0000:05:00.0/driver
sys/bus/pci/drivers/nvidia/
sys/devices/pci0000:00/0000:05:00.0/driver -> ../../../bus/pci/drivers/nvidia
`

// nvidiaLibrary returns the lines of NVIDIA's library in a directory.
func nvidiaLibrary(dir string) string {
	return dir + "/libnvidia-ml.so.570.1: x\n" + dir + "/libnvidia-ml.so.1 -> libnvidia-ml.so.570.1"
}

// abandon leaves a socket of kubelet's on which nobody listens.
func abandon(t *testing.T, kubeletDir string) {
	t.Helper()
	path := filepath.Join(kubeletDir, "device-plugins", "kubelet.sock")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

// Verifies for each cause at which step the device stops, with which reason; and that nothing stops
// a device that is served.
func TestStops(t *testing.T) {
	const old = "containerd containerd.io 1.7.24 88bf19b"
	first := func(n *Node) *listing.Device { return &n.Devices[0] }
	resource := func(n *Node) *status.Resource { return &n.Report.Resources[0] }
	unlisted := func(n *Node) { n.Devices = nil }
	crio := func(n *Node) {
		n.Runtime.CRIOConfig = filepath.Join(filepath.Dir(n.Sysfs), "crio/crio.conf")
		n.Runtime.Version = func(program string) (string, error) {
			if program == "crio" {
				return "crio version 1.35.0\n", nil
			}
			return "", exec.ErrNotFound
		}
	}
	byDRA := func(driver status.Driver) func(n *Node) {
		return func(n *Node) {
			driver.Name, driver.Backend = "amd.accelmux.io", "amd"
			n.Report.Drivers = []status.Driver{driver}
			*resource(n) = status.Resource{Name: "amd.com/gpu", API: "dra", State: "serving"}
		}
	}
	for name, c := range map[string]struct {
		tree   string // further lines
		change func(*Node)
		step   string // "" if nothing stops
		why    string
	}{
		"served":    {},
		"no driver": {"- sys/devices/pci0000:00/0000:05:00.0/driver", unlisted, "kernel driver", "no kernel driver is bound to 0000:05:00.0"},
		"node missing, listed": {"", func(n *Node) {
			first(n).Healthy, first(n).Faults = false, []listing.Fault{{Code: round.CodeNoNode, Message: "no /dev/dri/card0"}}
		}, "device nodes", "no /dev/dri/card0"},
		"node missing, not listed": {"- dev/dri/card0", unlisted, "device nodes", "/dev/dri/card0 does not exist"},
		"no library":               {nvidiaDriver, unlisted, "library", "libnvidia-ml.so.1 is in none of the usual directories below "},
		"library of another version": {nvidiaDriver + nvidiaLibrary("usr/lib64") + "\nsys/module/nvidia/version: 565.2", unlisted,
			"library", "of version 570.1, and the loaded kernel module nvidia of version 565.2"},
		"library there": {nvidiaDriver + nvidiaLibrary("usr/lib/x86_64-linux-gnu") + "\nsys/module/nvidia/version: 570.1", unlisted, "backend", "has no backend nvidia"},
		"library in the driver root": {nvidiaDriver + nvidiaLibrary("run/nvidia/driver/lib64"), func(n *Node) {
			unlisted(n)
			n.Config.Profiles[0].Backends = []config.Backend{{Name: "amd", Settings: config.Settings(`{"edits": {"driverRoot": "/run/nvidia/driver"}}`)}}
		}, "backend", "has no backend nvidia"},
		"file refused":            {"", func(n *Node) { n.Report.Config.Refused, n.Report.Config.Profile = "line 3", "" }, "configuration", "refused since 0001-01-01T00:00:00Z: line 3"},
		"none chosen":             {"", func(n *Node) { n.Report.Config.Unchosen, n.Report.Config.Profile = "two fit", "" }, "configuration", "two fit"},
		"no profile for the node": {"", func(n *Node) { n.Report.Config = profile.Status{Reason: "no label fits"} }, "configuration", "no label fits"},
		"no profile yet":          {"", func(n *Node) { n.Report.Config.Profile, n.Report.NotReady = "", []string{"waiting"} }, "configuration", "no profile is in force"},
		"standby":                 {"", func(n *Node) { n.Report.Role = status.RoleStandby }, "agent", "on standby"},
		"backend stopped":         {"", func(n *Node) { n.Report.Backends[0].State, n.Report.Backends[0].LastError = "backoff", "no library" }, "backend", "backoff: no library"},
		"its backend stopped": {"", func(n *Node) {
			unlisted(n)
			n.Report.Backends[0].State, n.Report.Backends[0].LastError = "quarantined", "it crashed"
		}, "backend", "the backend amd is quarantined: it crashed"},
		"backend lists less": {"", func(n *Node) { unlisted(n); n.Report.Problems = []status.Problem{{Backend: "amd", Message: "too old"}} }, "backend", "does not list it: too old"},
		"no backend":         {"", func(n *Node) { unlisted(n); n.Report.Backends = nil }, "backend", "has no backend amd"},
		"unknown hardware":   {"sys/devices/pci0000:00/0000:05:00.0/vendor: 0x1234", unlisted, "backend", "no manifest in the backend directory has this hardware"},
		"unhealthy": {"", func(n *Node) {
			first(n).Healthy, first(n).Faults = false, []listing.Fault{{Code: "ecc", Message: "2 errors"}}
		}, "inventory", "ecc: 2 errors"},
		"cordoned": {"", func(n *Node) {
			first(n).Healthy, first(n).Faults = false, []listing.Fault{{Code: round.CodeCordoned, Message: "cordoned by alice", Recovery: "self"}}
		}, "inventory", "cordoned by alice"},
		"unhealthy, unknown why":    {"", func(n *Node) { first(n).Healthy = false }, "inventory", "it is unhealthy"},
		"no resource":               {"", func(n *Node) { first(n).Resource = "" }, "resource", "(class gpu)"},
		"no definition":             {"- cdi/amd.json", nil, "CDI specs", "defines amd.accelmux.io/gpu=g0"},
		"no name":                   {"", func(n *Node) { first(n).Healthy, first(n).Faults = false, []listing.Fault{{Code: round.CodeNoCDIName}} }, "CDI specs", round.CodeNoCDIName},
		"containerd too old":        {"", func(n *Node) { n.Runtime.Version = installed("", "containerd v1.6.2").Version }, "container runtime", "1.6.2 has no CDI"},
		"containerd 1.7":            {"", func(n *Node) { n.Runtime.Version = installed("", old).Version }, "container runtime", "CDI is off by default"},
		"containerd 1.7, on":        {"containerd/config.toml: plugins.'io.containerd.grpc.v1.cri'.enable_cdi = true", func(n *Node) { n.Runtime.Version = installed("", old).Version }, "", ""},
		"containerd 2, off":         {"containerd/config.toml: plugins.'io.containerd.grpc.v1.cri'.enable_cdi = false", nil, "container runtime", "CDI is off in "},
		"containerd 2, imports off": {"containerd/config.toml: imports = [\"d/*.toml\"]\ncontainerd/d/a.toml: plugins.'io.containerd.cri.v1.runtime'.enable_cdi = false", nil, "container runtime", "d/a.toml"},
		"another plugin's option":   {"containerd/config.toml: plugins.other.enable_cdi = true", func(n *Node) { n.Runtime.Version = installed("", old).Version }, "container runtime", "CDI is off by default"},
		"other spec directories":    {"containerd/config.toml: plugins.cri.cdi_spec_dirs = ['/somewhere/else']", nil, "container runtime", "containerd reads CDI specs from /somewhere/else, not from "},
		"plain needs no CDI":        {"- cdi/amd.json\ncontainerd/config.toml: plugins.'io.containerd.grpc.v1.cri'.enable_cdi = false", func(n *Node) { resource(n).Injection = "plain" }, "", ""},
		"kubelet ended":             {"- kubelet/device-plugins/kubelet.sock", nil, "kubelet", "kubelet.sock does not exist"},
		"kubelet does not listen":   {"", func(n *Node) { abandon(t, n.KubeletDir) }, "kubelet", "no process listens on "},
		"kubelet missing, reported": {"", func(n *Node) { n.Report.KubeletMissing = "it refuses" }, "kubelet", "it refuses"},
		"not registered":            {"", func(n *Node) { resource(n).State, resource(n).LastError = "waiting", "denied" }, "allocatable", "waiting: denied"},
		"another plugin": {"", func(n *Node) {
			resource(n).Conflict = "another's"
		}, "allocatable", "another's"},
		"CRI-O":                         {"crio/crio.conf: [crio.runtime]\\nlog_level = 'x'", crio, "", ""},
		"CRI-O, other spec directories": {"crio/crio.conf: [crio.runtime]\\ncdi_spec_dirs = ['/first']\ncrio/crio.conf.d/10: [crio.runtime]\\ncdi_spec_dirs = ['/last']", crio, "container runtime", "CRI-O reads CDI specs from /last, not from "},
		"Node has less":                 {"", func(n *Node) { n.Cluster.Capacity["amd.com/gpu"] = 0 }, "Node", "the Node n1 has 0 of amd.com/gpu, 1 of them allocatable; the agent has 1, 1 of them healthy"},
		"Node takes it for unhealthy":   {"", func(n *Node) { n.Cluster.Allocatable["amd.com/gpu"] = 0 }, "Node", "0 of them allocatable"},
		"slices of another": {"", func(n *Node) {
			byDRA(status.Driver{Registered: true, Published: true, Devices: 1})(n)
			n.Cluster.Published["amd.accelmux.io"] = 2
		}, "Node", "have 2 devices of the Node n1; the agent has 1 to publish"},
		"claims":                {"- kubelet/device-plugins/kubelet.sock", byDRA(status.Driver{Registered: true, Published: true, Devices: 1}), "", ""},
		"driver not registered": {"", byDRA(status.Driver{Published: true}), "DRA", "kubelet has not accepted the driver"},
		"slices not published":  {"", byDRA(status.Driver{Registered: true, Problem: "forbidden"}), "DRA", "amd.accelmux.io: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			root := devicetree.New(t, tree)
			n := serving(t, root.Root)
			root.Change(t, c.tree)
			if c.change != nil {
				c.change(&n)
			}
			r := Examine(n)
			if len(r.Devices) != 1 {
				t.Fatalf("%d devices, want 1", len(r.Devices))
			}
			d := r.Devices[0]
			if d.StopsAt != c.step || !strings.Contains(d.Why, c.why) {
				t.Errorf("stops at %q, because %q; want %q, because %q", d.StopsAt, d.Why, c.step, c.why)
			}
			if (c.step == "") != (d.State == OK) || r.Stopped() != (c.step != "") || (d.Do == "") != (c.step == "") {
				t.Errorf("the device is %+v, and stopped is %t", d, r.Stopped())
			}
		})
	}
}

// Verifies what to do about a backend that a label of the Node pauses: it has reported nothing to correct.
func TestPausedBackend(t *testing.T) {
	for name, unlisted := range map[string]bool{"its device is listed": false, "no device is listed": true} {
		n := serving(t, devicetree.New(t, tree).Root)
		if unlisted {
			n.Devices = nil
		}
		n.Report.Backends[0].State, n.Report.Backends[0].Paused = "paused", "it must not run while the Node has the label acme.example/deploy=paused-for-upgrade"
		for _, d := range Examine(n).Devices {
			if d.StopsAt != "backend" || !strings.Contains(d.Why, "paused-for-upgrade") || !strings.Contains(d.Do, "set the label back") {
				t.Errorf("%s: stops at %q, because %q: %s", name, d.StopsAt, d.Why, d.Do)
			}
		}
	}
}

// Verifies the steps that have a cause of their own, without a device that stops there, and those that cannot be checked:
// these are never ok.
func TestSteps(t *testing.T) {
	prints := func(containerd string, err error) func(*Node) {
		return func(n *Node) {
			n.Runtime.Version = func(program string) (string, error) {
				if program == "containerd" {
					return containerd, err
				}
				return "", exec.ErrNotFound
			}
		}
	}
	both := func(n *Node) { n.Runtime.Version = func(string) (string, error) { return "1.2.3", nil } }
	crio := func(n *Node) {
		n.Runtime.CRIOConfig = filepath.Join(n.Root, "crio.conf")
		n.Runtime.Version = func(program string) (string, error) {
			if program == "crio" {
				return "crio version 1.35.0", nil
			}
			return "", exec.ErrNotFound
		}
	}
	noAgent := func(n *Node) { n.Report, n.Devices, n.AgentErr = nil, nil, errors.New("no agent answers") }
	for name, c := range map[string]struct {
		tree   string
		change func(*Node)
		step   string
		state  State
		why    string
	}{
		"the bus is no directory": {"- sys/bus/pci/devices\nsys/bus/pci/devices: x", nil, "hardware", Stops, "the PCI bus cannot be read"},
		"a broken CDI spec":       {"cdi/broken.json: {", nil, "CDI specs", Stops, "cannot use the CDI spec"},
		"a refused change": {"", func(n *Node) {
			n.Report.Config.Refused, n.Report.Config.RefusedSince = "line 3", time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		}, "configuration", Stops, "refused since 2030-01-02T03:04:05Z: line 3"},
		"an invalid file, no agent":    {"", func(n *Node) { noAgent(n); n.ConfigErr = errors.New("line 3") }, "configuration", Stops, "line 3"},
		"a driver without named nodes": {"- sys/devices/pci0000:00/0000:05:00.0/drm", noAgent, "device nodes", NotChecked, "names no nodes of 0000:05:00.0"},
		"a driver root in another container": {nvidiaDriver, func(n *Node) {
			n.Devices = nil
			n.Config.Profiles[0].Backends = []config.Backend{{Name: "nvidia", Settings: config.Settings(`{"edits": {"driverRoot": "/", "driverRootMount": "/driver-root"}}`)}}
		}, "library", NotChecked, "/driver-root, where the settings have the driver, is not here"},
		"no CDI directory, no agent":   {"- cdi", noAgent, "CDI specs", NotChecked, "the agent makes it"},
		"two runtimes":                 {"", both, "container runtime", NotChecked, "both here"},
		"containerd fails":             {"", prints("", errors.New("it crashed")), "container runtime", NotChecked, "it crashed"},
		"containerd without a version": {"", prints("containerd", nil), "container runtime", NotChecked, "prints no version"},
		"containerd's broken file":     {"containerd/config.toml: [", nil, "container runtime", NotChecked, "config.toml"},
		"CRI-O's broken file":          {"crio.conf: [", crio, "container runtime", NotChecked, "crio.conf"},
		"no API server":                {"", func(n *Node) { n.Cluster, n.ClusterErr = nil, errors.New("forbidden") }, "Node", NotChecked, "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			root := devicetree.New(t, tree)
			n := serving(t, root.Root)
			root.Change(t, c.tree)
			if c.change != nil {
				c.change(&n)
			}
			r := Examine(n)
			at := slices.IndexFunc(r.Steps, func(s StepResult) bool { return s.Step == c.step })
			if s := r.Steps[at]; s.State != c.state || !strings.Contains(s.Why, c.why) || (s.Do != "") != (c.state == Stops) {
				t.Errorf("%+v, want %s, because %q", s, c.state, c.why)
			}
			if c.state == Stops && !r.Stopped() {
				t.Error("nothing stops")
			}
		})
	}
}

// Verifies for each of kubelet's two directories that is wrong that the step for it stops, and says what is right.
func TestKubeletDirectories(t *testing.T) {
	const elsewhere = "elsewhere" // no kubelet's
	for name, c := range map[string]struct {
		plugins, root string // the agent's directories
		running       bool   // /proc shows the running kubelet
		ended         bool
		plugin, dra   string // what the two steps say to do; "" if they are ok
	}{
		"both right":              {"kubelet", "kubelet", true, false, "", ""},
		"root wrong":              {"kubelet", elsewhere, true, false, "", "set --kubelet-root-dir of the agent (in the chart hostPaths.kubelet) to DIR/kubelet"},
		"root wrong, in a pod":    {"kubelet", elsewhere, false, false, "", "set --kubelet-root-dir of the agent (in the chart hostPaths.kubelet) to kubelet's --root-dir"},
		"plugins wrong":           {elsewhere, "kubelet", true, false, "set --kubelet-dir of the agent (in the chart hostPaths.devicePlugins) to /var/lib/kubelet", ""},
		"both wrong":              {elsewhere, elsewhere, true, false, "start kubelet; `journalctl -u kubelet` shows why it ended; if it runs, set --kubelet-dir of", "set --kubelet-root-dir of the agent (in the chart hostPaths.kubelet) to DIR/kubelet"},
		"kubelet has ended":       {"kubelet", "kubelet", false, true, "start kubelet; ", "start kubelet; "},
		"neither right nor ended": {elsewhere, elsewhere, false, true, "start kubelet; ", "start kubelet; "},
	} {
		t.Run(name, func(t *testing.T) {
			root := devicetree.New(t, tree)
			n := serving(t, root.Root)
			n.KubeletDir, n.KubeletRootDir = filepath.Join(root.Root, c.plugins), filepath.Join(root.Root, c.root)
			if c.running {
				root.Change(t, "proc/1/net/unix: 0000000000000000: 00000002 00000000 00010000 0001 01 1 "+filepath.Join(root.Root, "kubelet/pod-resources/123"))
			}
			if c.ended {
				root.Change(t, "- kubelet/device-plugins/kubelet.sock\n- kubelet/pod-resources/kubelet.sock")
			}
			for _, s := range Examine(n).Steps {
				want, isOf := map[string]string{"kubelet": c.plugin, "kubelet's root directory": c.dra}[s.Step]
				want = strings.ReplaceAll(want, "DIR", root.Root)
				if isOf && ((s.State == OK) != (want == "") || !strings.HasPrefix(s.Do, want)) {
					t.Errorf("%s: %+v, want to do: %s", s.Step, s.Finding, want)
				}
				if other := s.Step == "kubelet" && c.plugin != "" && c.dra == "" || s.Step != "kubelet" && c.plugin == "" && c.dra != ""; isOf && other && !strings.Contains(s.Why, "kubelet runs, and answers in ") {
					t.Errorf("%s does not say that kubelet runs: %s", s.Step, s.Why)
				}
			}
		})
	}
}

// Verifies what is found without an agent.
func TestNoAgent(t *testing.T) {
	root := devicetree.New(t, tree)
	noAgent := without(t, root.Root)
	for name, c := range map[string]struct {
		node Node
		step string // that is not checked
	}{
		"no agent":          {noAgent, "inventory"},
		"no runtime in pod": {withRuntime(noAgent, installed(root.Root, "")), "container runtime"},
	} {
		r := Examine(c.node)
		if at := slices.IndexFunc(r.Steps, func(s StepResult) bool { return s.Step == c.step }); r.Steps[at].State != NotChecked || r.Steps[at].Why == "" {
			t.Errorf("%s: %+v", name, r.Steps[at])
		}
		if d := r.Devices[0]; d.StopsAt != "agent" || d.Why != "no agent answers" {
			t.Errorf("%s: the device is %+v", name, d)
		}
	}
	noAgent.ConfigErr = os.ErrNotExist
	if d := Examine(noAgent).Devices[0]; d.StopsAt != "configuration" || !strings.Contains(d.Do, "accelmux discover") {
		t.Errorf("without a configuration, the device is %+v", d)
	}
	noAgent.Config.Profiles[0].IgnorePCI = []string{"1002"}
	if r := Examine(noAgent); len(r.Devices) != 0 {
		t.Errorf("with ignorePCI there are %+v", r.Devices)
	}
	other := devicetree.New(t, tree)
	served := withRuntime(serving(t, other.Root), installed(other.Root, ""))
	if r := Examine(served); r.Devices[0].State != NotChecked || r.Stopped() {
		t.Errorf("with a runtime that is not checked, the device is %+v", r.Devices[0])
	}
}

func withRuntime(n Node, r Runtime) Node {
	n.Runtime = r
	return n
}
