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

// acceptance has, for each kind, what the word accepts if a backend declares it by its name, and
// what it leaves to the lists.
var acceptance = map[*editKind]struct{ accepted, reserved []string }{
	&nodeEdit: {
		[]string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3", "/dev/dri/renderD128", "/dev/kfd", "/dev/xfpga/icap.0", "/dev/infiniband/uverbs0", "/run/nvidia/driver/dev/nvidia0", "/dev/video0"},
		[]string{
			"/dev/kvm", "/dev/fuse", "/dev/vfio/vfio", "/dev/vfio/12", "/dev/net/tun", "/dev/tty", "/dev/ttyS0", "/dev/pts/0", "/dev/shm", "/dev/input/event0",
			"/dev/bus/usb/001/002", "/dev/vhost-net", "/dev/tpm0", "/run/nvidia/driver/dev/kvm", "/opt/acme/node", "/etc/passwd",
		},
	},
	&readEdit: {
		[]string{
			"/usr/lib64/libcuda.so.1", "/lib/firmware/x", "/lib64/libcuda.so.1", "/etc/vulkan/icd.d/x.json", "/etc/cufile.json", "/run/udev", "/dev/null",
			"/opt/acme/lib.so", "/home/kubernetes/bin/nvidia/lib64/libcuda.so.1", "/run/nvidia/driver/usr/bin/nvidia-smi", "/var/run/acme/socket",
		},
		[]string{
			"/etc", "/usr", "/var", "/run", "/home", "/etc/shadow", "/etc/ssh/ssh_host_rsa_key", "/etc/kubernetes/admin.conf", "/var/lib/kubelet", "/var/lib/kubelet/pki/kubelet.key",
			"/var/run", "/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/docker.sock", "/run/secrets/token", "/run/systemd/private", "/run/dbus/system_bus_socket",
			"/root/.ssh/id_rsa", "/root", "/home/user/.kube/config", "/proc/driver/acme", "/run/cdi", "/etc/cdi", "/sys/kernel/debug", "/dev/shm", "/dev/shm/x", "/boot/x",
			"/etc/ssl", "/etc/ssl/private/key", "/home/alice", "/run/nvidia/driver/etc/shadow", "/run/nvidia/driver/root/.ssh/id_rsa",
		},
	},
	&mountEdit: {
		[]string{"/run/nvidia-persistenced/socket", "/var/run/acme/socket", "/tmp/nvidia-mps", "/run/accelmux-mps/pipe", "/run/nvidia/driver/tmp/nvidia-mps"},
		[]string{"/usr/lib/libc.so.6", "/etc/acme/x", "/opt/acme", "/tmp", "/run", "/var/run", "/run/containerd/containerd.sock", "/run/accelmux/agent.sock", "/dev/shm", "/home/x/y"},
	},
	&hookEdit: {
		[]string{"/usr/bin/nvidia-cdi-hook", "/usr/local/nvidia/toolkit/nvidia-cdi-hook", "/opt/bin/acme-hook"},
		[]string{"/bin/sh", "/usr/bin/env", "/usr/bin/nsenter", "/tmp/x-hook", "/run/acme/x-hook", "/var/lib/x-hook", "/proc/x-hook", "/dev/shm/x-hook", "/usr/hook/sh"},
	},
	&variedEdit: {
		[]string{"NVIDIA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "ACME", "A"},
		[]string{
			"BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONSTARTUP", "PYTHONPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "PERL5OPT", "RUBYOPT",
			"GIT_SSH_COMMAND", "HOME", "PROMPT_COMMAND", "GCONV_PATH", "HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE", "DOTNET_STARTUP_HOOKS",
		},
	},
}

// Verifies what one word accepts of declared needs: ordinary edits of accelerators, and nothing
// that gives control of the node, nor anything at all without the word. The lists of the
// configuration still allow what the word leaves out.
func TestDeclaredNeedsAreAcceptedWithinBounds(t *testing.T) {
	for kind, names := range acceptance {
		for i, group := range [][]string{names.accepted, names.reserved} {
			for _, name := range group {
				declared := kind.declares(name)
				for _, c := range []struct {
					what   string
					policy Policy
					want   bool
				}{
					{"without the word", Policy{Declared: declared}, name == "/dev/null" && kind == &nodeEdit},
					{"with the word", Policy{Declared: declared, AcceptDeclared: true}, i == 0},
					{"with the word, not declared", Policy{Declared: kind.declares("/other/one"), AcceptDeclared: true}, false},
					{"in the lists", Policy{Declared: declared, Allowed: Policy{}.listed(kind, name)}, true},
				} {
					_, _, err := ParseEdits(c.policy, kind.wire(name))
					if (err == nil) != c.want {
						t.Errorf("%s %s, %s: %v", kind.what, name, c.what, err)
					}
				}
				if got := kind.entries(declared.Acceptable()); (len(got) == 1) != (i == 0) {
					t.Errorf("%s %s is acceptable: %q", kind.what, name, got)
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

// Verifies that the word does not accept needs that say nothing, and accepts patterns.
func TestBroadNeedsAreNotAccepted(t *testing.T) {
	for kind, want := range map[*editKind][2]string{
		&nodeEdit:   {"/dev/acme*", "/** /dev/** /dev/* /dev/a* /dev/[a-z]* /*/acme0 /run/*/dev/acme0"},
		&readEdit:   {"/usr/lib/**", "/** /* /etc/** /e*/** /usr/** /var/** /run/* /*/acme"},
		&mountEdit:  {"/run/acme/**", "/** /run/** /tmp/* /run/*/x /var/run/**"},
		&hookEdit:   {"/usr/bin/*-hook", "/** /usr/bin/* /usr/*/**"},
		&variedEdit: {"ACME_*", "* A* AC_* ACME* LD_* PYTHON_*"},
	} {
		if got := kind.entries(kind.declares(want[0]).Acceptable()); len(got) != 1 {
			t.Errorf("%s %s is not accepted", kind.what, want[0])
		}
		for _, broad := range strings.Fields(want[1]) {
			if got := kind.entries(kind.declares(broad).Acceptable()); len(got) != 0 {
				t.Errorf("%s %s is accepted", kind.what, broad)
			}
		}
		for _, name := range append(acceptance[kind].accepted, acceptance[kind].reserved...) {
			if name == "/dev/null" {
				continue
			}
			if _, _, err := ParseEdits(Policy{Declared: everything, AcceptDeclared: true}, kind.wire(name)); err == nil {
				t.Errorf("%s %s of a backend that declares everything is accepted", kind.what, name)
			}
		}
	}
	if got := (EditScope{GIDs: []uint32{6, 15, 42}}).Acceptable(); len(got.GIDs) != 0 {
		t.Errorf("groups %v are accepted", got.GIDs)
	}
}

// Verifies that of the patterns that are accepted those are beyond, too, that also match what is
// not.
func TestPatternsThatReachReservedNamesAreBeyond(t *testing.T) {
	for kind, entries := range map[*editKind][2]string{
		&nodeEdit:   {"/dev/kv* /dev/kv[m] /dev/v[a-z]* /dev/fus? /run/nvidia/driver/dev/kv*", "/dev/nvidia* /dev/dri/renderD[0-9]* /dev/video[0-9]* /dev/kfd* /dev/acme/*"},
		&readEdit:   {"/etc/shado* /run/dock*", "/usr/lib/*/libcuda.so.* /etc/acme/*"},
		&mountEdit:  {"/run/dock*", "/run/acme/**"},
		&variedEdit: {"GIT_*", "ACME_*"},
	} {
		for i, list := range entries {
			for _, entry := range strings.Fields(list) {
				if got := kind.entries(kind.declares(entry).Beyond()); (len(got) == 1) != (i == 0) {
					t.Errorf("%s %s: %q is beyond", kind.what, entry, got)
				}
			}
		}
	}
}

// Verifies that a pattern that looks narrow gives no reserved path.
func TestPatternsDoNotReachReservedPaths(t *testing.T) {
	for kind, c := range map[*editKind][3]string{
		&nodeEdit:  {"/dev/us[bx]*", "/dev/usx0", "/dev/usbmon0"},
		&readEdit:  {"/run/co*/**", "/run/coral/x", "/run/containerd/containerd.sock"},
		&mountEdit: {"/tmp/acme/**", "/tmp/acme/x", "/tmp/acme/proc/1/root/tmp/x"},
		&hookEdit:  {"/opt/acme*/*-hook", "/opt/acme/x-hook", "/opt/acme/.x-hook"},
	} {
		policy := Policy{Declared: kind.declares(c[0]), AcceptDeclared: true}
		if _, _, err := ParseEdits(policy, kind.wire(c[1])); err != nil {
			t.Errorf("%s %s: %v", kind.what, c[1], err)
		}
		if _, _, err := ParseEdits(policy, kind.wire(c[2])); err == nil {
			t.Errorf("%s %s is accepted by %s", kind.what, c[2], c[0])
		}
	}
}

// Verifies that needs that a backend declares later count only if the configuration accepts them.
func TestLaterNeedsCountOnlyWhereAccepted(t *testing.T) {
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
