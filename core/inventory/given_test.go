package inventory

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// wire returns edits with one entry of a kind.
func (k *editKind) wire(name string) *backendv1.ContainerEdits {
	switch k {
	case &nodeEdit:
		return &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: name}}}
	case &mountEdit, &readEdit:
		return &backendv1.ContainerEdits{Mounts: []*backendv1.Mount{{HostPath: name, ContainerPath: "/x", Writable: k == &mountEdit}}}
	case &hookEdit:
		return &backendv1.ContainerEdits{Hooks: []*backendv1.OciHook{{HookName: "createRuntime", Path: name}}}
	}
	return &backendv1.ContainerEdits{Env: map[string]string{name: "x"}}
}

// declares returns a scope with the entry in the list of a kind.
func (k *editKind) declares(entries ...string) EditScope {
	switch k {
	case &nodeEdit:
		return EditScope{Devices: entries}
	case &mountEdit:
		return EditScope{Mounts: entries}
	case &readEdit:
		return EditScope{ReadOnlyMounts: entries}
	case &hookEdit:
		return EditScope{Hooks: entries}
	}
	return EditScope{Env: entries}
}

// acceptance has, for each kind, names that a manifest or the configuration can give, and names that nobody gets.
var acceptance = map[*editKind]struct{ given, never []string }{
	&nodeEdit: {
		[]string{"/dev/nvidia0", "/dev/dri/renderD128", "/dev/kvm", "/dev/vfio/12", "/dev/net/tun", "/dev/ttyS0", "/dev/tpm0", "/run/nvidia/driver/dev/nvidia0", "/opt/acme/node"},
		[]string{
			"/dev/mem", "/dev/cpu/0/msr", "/dev/char/1:1", "/dev/kmsg", "/run/nvidia/driver/dev/mem", "/proc/1/root/dev/null", "/run/containerd/containerd.sock",
			"/dev/watchdog0", "/dev/dax0.0",
		},
	},
	&readEdit: {
		[]string{"/usr/lib64/libcuda.so.1", "/etc/vulkan/icd.d/x.json", "/run/udev/data", "/dev/null", "/opt/acme/lib.so", "/run/nvidia/driver/etc/shadow", "/var/run/acme/socket", "/sys/kernel/debug", "/home/alice"},
		[]string{
			"/run", "/var/run", "/run/udev", "/run/udev/control", "/var", "/etc", "/dev", "/etc/shadow", "/etc/ssh", "/etc/kubernetes/admin.conf", "/var/lib/kubelet", "/var/lib", "/run/containerd/containerd.sock", "/run/containerd", "/var/run/docker.sock",
			"/run/systemd/private", "/run/dbus/system_bus_socket", "/root/.ssh/id_rsa", "/proc", "/proc/driver/acme", "/run/nvidia/driver/proc", "/run/accelmux/agent.sock", "/var/lib/accelmux/backends/mock", "/dev/sda", "/dev/mapper",
		},
	},
	&mountEdit: {
		[]string{"/run/nvidia-persistenced/socket", "/tmp", "/run/acme/x", "/opt/acme", "/home/x/y", "/dev/shm", "/usr/lib/acme"},
		[]string{"/run/udev", "/run/udev/rules.d", "/etc/udev/rules.d/x", "/etc/sudoers.d/x", "/run/tmpfiles.d", "/etc/polkit-1/rules.d", "/usr", "/usr/bin/x", "/etc/cron.d/x", "/lib/modules", "/run/cdi", "/etc/modprobe.d/x.conf", "/run/crio/crio.sock"},
	},
	&hookEdit: {
		[]string{"/usr/bin/nvidia-cdi-hook", "/opt/bin/acme-hook", "/usr/local/bin/acme"},
		[]string{"/proc/1/root/x-hook", "/run/containerd/x", "/var/lib/kubelet/x"},
	},
	&variedEdit: {
		[]string{"NVIDIA_VISIBLE_DEVICES", "ACME", "PYTHONPATH"},
		[]string{"LD_PRELOAD", "PATH", "KUBERNETES_SERVICE_HOST", "GLIBC_TUNABLES"},
	},
}

// Verifies that a container gets what the manifest has where the configuration accepts it, and what the configuration's lists
// have, and nothing else; and that what nobody gets is given by neither, with a message that proposes nothing.
func TestWhatIsGiven(t *testing.T) {
	for kind, names := range acceptance {
		for i, group := range [][]string{names.given, names.never} {
			for _, name := range group {
				declared := kind.declares(name)
				for _, c := range []struct {
					what   string
					policy Policy
					want   bool
				}{
					{"refused", Policy{Declared: declared}, false},
					{"accepted", Policy{Declared: declared, AcceptDeclared: true}, true},
					{"accepted, not declared", Policy{Declared: kind.declares("/other/one"), AcceptDeclared: true}, false},
					{"in the lists, not declared", Policy{Allowed: Policy{}.listed(kind, name)}, true},
					{"everything in the lists and accepted", Policy{Allowed: everything, Declared: everything, AcceptDeclared: true}, true},
				} {
					want := c.want && i == 0 || name == "/dev/null" && kind == &nodeEdit
					_, _, err := ParseEdits(c.policy, kind.wire(name))
					if (err == nil) != want {
						t.Errorf("%s %s, %s: %v", kind.what, name, c.what, err)
					}
					if i == 1 && err != nil && strings.Contains(err.Error(), "allow: {") {
						t.Errorf("%s %s, %s: proposes what does not help: %v", kind.what, name, c.what, err)
					}
				}
			}
		}
	}
}

// listed is the list of a configuration with one entry: it has one for all mounts.
func (Policy) listed(kind *editKind, name string) EditScope {
	if kind == &readEdit {
		kind = &mountEdit
	}
	return kind.declares(name)
}

// Verifies that what a manifest has for later settings counts only if the configuration accepts it.
func TestLaterEditsCountOnlyWhereAccepted(t *testing.T) {
	lists := EditScope{Devices: []string{"/dev/acme0"}}
	for _, accept := range []bool{true, false} {
		s, _ := newTestStore(t)
		desc := testDesc
		desc.Edits = EditScope{Devices: []string{"/dev/acme0"}}
		describe(s, "mock", desc, Policy{AcceptDeclared: accept, Allowed: lists})
		old, later := wireDevice("a"), wireDevice("b")
		old.Edits = nodeEdit.wire("/dev/acme0")
		later.Edits = nodeEdit.wire("/dev/other0")
		if b := mustReport(t, s, inv(1, old, later)); ids(b.Devices) != "a" {
			t.Fatalf("devices %s", ids(b.Devices))
		}
		desc.Edits = EditScope{Devices: []string{"/dev/acme0", "/dev/other*"}}
		s.Describe("mock", desc)
		if b := s.Snapshot().Backends[0]; (ids(b.Devices) == "a b") != accept {
			t.Errorf("accepted %v: devices %s", accept, ids(b.Devices))
		}
		s.SetPolicies(map[string]Policy{"mock": {AcceptDeclared: !accept, Allowed: lists}})
		if b := s.Snapshot().Backends[0]; ids(b.Devices) != map[bool]string{true: "a", false: "a b"}[accept] {
			t.Errorf("accepted %v until now: devices %s", accept, ids(b.Devices))
		}
	}
}

// Verifies that one problem has all entries that the configuration lacks, for all devices, and
// that they are what is missing.
func TestOneProblemHasAllMissingEntries(t *testing.T) {
	declared := EditScope{
		Devices: []string{"/dev/acme[0-9]*"}, Mounts: []string{"/run/acme/**"}, ReadOnlyMounts: []string{"/opt/acme/**"}, Hooks: []string{"/usr/bin/acme-hook"},
		Env: []string{"*"}, GIDs: []uint32{44}, NetDevices: []string{"can*"},
	}
	device := func(id string) *backendv1.Device {
		d := wireDevice(id)
		d.Edits = &backendv1.ContainerEdits{
			Env: map[string]string{"ACME_DEVICE": id}, DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/acme0"}, {Path: "/dev/acme1"}},
			Mounts: []*backendv1.Mount{
				{HostPath: "/run/acme/it's", ContainerPath: "/a", Writable: true}, {HostPath: "/opt/acme/lib", ContainerPath: "/b"},
				{HostPath: "/opt/acme/more", ContainerPath: "/c", Optional: true},
			},
			Hooks:          []*backendv1.OciHook{{HookName: "createContainer", Path: "/usr/bin/acme-hook", Env: []string{"B=1"}}},
			AdditionalGids: []uint32{44},
			NetDevices:     []*backendv1.NetDevice{{HostName: "can0"}},
		}
		return d
	}
	const want = "allow: {devices: ['/dev/acme[0-9]*'], mounts: [/opt/acme/**, /run/acme/**], hooks: [/usr/bin/acme-hook], env: [ACME_DEVICE, B], gids: [44], netDevices: [can*]}"
	desc := testDesc
	desc.Edits = declared
	s, _ := newTestStore(t)
	describe(s, "mock", desc, Policy{})
	b := mustReport(t, s, inv(1, device("a"), device("b"), device("c"), device("d"), device("e")))
	if len(b.Problems) != 1 || !strings.HasPrefix(b.Problems[0].Message, "5 devices are left out (a, b, c, d, ...): ") || !strings.Contains(b.Problems[0].Message, want) {
		t.Fatalf("problems %+v", b.Problems)
	}
	var lists struct {
		Allow struct {
			Devices, Mounts, Hooks, Env []string
			GIDs                        []uint32
			NetDevices                  []string `yaml:"netDevices"`
		}
	}
	_, text, _ := strings.Cut(b.Problems[0].Message, "this backend ")
	text, _, _ = strings.Cut(text, " (declared")
	if err := yaml.Unmarshal([]byte(text), &lists); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	l := lists.Allow
	s.SetPolicies(map[string]Policy{"mock": {Allowed: EditScope{Devices: l.Devices, Mounts: l.Mounts, Hooks: l.Hooks, Env: l.Env, GIDs: l.GIDs, NetDevices: l.NetDevices}}})
	if b = s.Snapshot().Backends[0]; len(b.Devices) != 5 || len(b.Problems) != 0 {
		t.Errorf("with the entries: devices %s, problems %+v", ids(b.Devices), b.Problems)
	}
}
