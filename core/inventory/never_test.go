package inventory

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	testhost "github.com/accelmux/accelmux/test/host"
)

// Verifies which patterns also stand for what nobody gets, by their use and the backend that has them.
func TestNever(t *testing.T) {
	for _, c := range []struct {
		use     Use
		pattern string
		owner   string
		never   bool
	}{
		{UseRead, "/sys/**", "x", false},
		{UseRead, "/proc/**", "x", false},
		{UseRead, "/etc/**", "x", true},
		{UseRead, "/etc/s*", "x", true},
		{UseRead, "/etc/ld.so.*", "x", false},
		{UseRead, "/var/lib/accelmux/backends/x/**", "x", false},
		{UseRead, "/var/lib/accelmux/backends/**", "x", true},
		{UseRead, "/var/lib/accelmux/backends/*/**", "x", true},
		{UseRead, "/var/lib/accelmux/backends/x", "x", true}, // its entries are other backends' as well
		{UseRead, "/var/lib/accelmux/backends/y/**", "x", true},
		{UseWrite, "/var/lib/accelmux/backends/y/**", "x", true},
		{UseWrite, "/var/lib/accelmux/backends/y/**", AnyBackend, false},
		{UseMount, "/var/lib/accelmux/backends/y/data", "x", true},
		{UseMount, "/var/lib/accelmux/backends/x/data", "x", true}, // it could exchange it between check and start
		{UseWrite, "/proc/sys/kernel/core_pattern", "x", true},
		{UseWrite, "/proc/**", "x", true},
		{UseWrite, "/sys/**", "x", true},
		{UseWrite, "/sys/devices/**", "x", false},
		{UseWrite, "/run/acme/**", "x", false},
		{UseWrite, "/run/*/**", "x", true},
		{UseWrite, "/run/udev/rules.d/9.rules", "x", true},
		{UseWrite, "/etc/modprobe.d/x.conf", "x", true},
		{UseWrite, "/run/tmpfiles.d/x.conf", "x", true},
		{UseWrite, "/etc/sudoers.d/x", "x", true},
		{UseWrite, "/etc/polkit-1/rules.d/x", "x", true},
		{UseWrite, "/lib/firmware/**", "x", false},
		{UseOpen, "/dev/nvidia*", "x", false},
		{UseOpen, "/dev/n*", "x", true},
		{UseOpen, "/dev/sda", "x", true},
		{UseOpen, "/dev/mem", "x", true},
		{UseNode, "/dev/sgx_*", "x", false},
		{UseNode, "/dev/sg*", "x", true},
		{UseNode, "/dev/loop0", "x", true},
		{UseReadOnlyMount, "/var/run/docker.sock", "x", true},
		{UseReadOnlyMount, "/run/dbus/system_bus_socket", "x", true},
		{UseReadOnlyMount, "/run/systemd/private", "x", true},
		{UseReadOnlyMount, "/run/nvidia-persistenced/socket", "x", false},
		{UseReadOnlyMount, "/proc/driver/acme", "x", true},
		{UseReadOnlyMount, "/run", "x", true},
		{UseReadOnlyMount, "/usr/lib/**", "x", false},
		{UseMount, "/usr/**", "x", true},
		{UseHook, "/usr/bin/*-hook", "x", false},
		{UseEnv, "*", "x", true},
		{UseEnv, "L*", "x", true},
		{UseEnv, "ACME_*", "x", false},
		{"list", "/dev/**", "x", false},
		{"capabilities", "CAP_SYS_ADMIN", "x", false},
	} {
		if got := Never(c.use, c.pattern, c.owner); (got != "") != c.never {
			t.Errorf("%s %s of %s: %q", c.use, c.pattern, c.owner, got)
		}
	}
}

// Verifies which entries of the configuration's lists give nothing that is possible. A process gets all that an entry stands
// for, a container what is possible of it.
func TestNeverAllowed(t *testing.T) {
	for _, c := range []struct {
		use   Use
		entry string
		never bool
	}{
		{UseNode, "/dev/ng*", true},
		{UseNode, "/dev/ng[0-9]*", true},
		{UseNode, "/dev/nvme*", true},
		{UseNode, "/dev/nvme0n*", true},
		{UseNode, "/dev/sd*", true},
		{UseNode, "/dev/sda*", true},
		{UseNode, "/dev/mem", true},
		{UseNode, "/dev/char/1:1", true},
		{UseNode, "/dev/n*", false},
		{UseNode, "/dev/*", false},
		{UseNode, "/**", false},
		{UseNode, "/dev/nvidia*", false},
		{UseNode, "/dev/ng0n1", false},
		{UseNode, "/dev/loop0", false},
		{UseOpen, "/dev/nbd0", false},
		{UseOpen, "/dev/nbd*", true},
		{UseOpen, "/dev/**", true},
		{UseOpen, "/dev/acme*", false},
		{UseRead, "/**", true},
		{UseRead, "/etc/**", true},
		{UseRead, "/srv/**", false},
		{UseWrite, "/run/**", true},
		{UseWrite, "/var/lib/accelmux/backends/y/**", false},
		{UseMount, "/run", true},
		{UseMount, "/run/containerd/*", true},
		{UseMount, "/run/**", false},
		{UseMount, "/run/udev", true},
		{UseMount, "/run/udev/**", true},
		{UseMount, "/run/udev/*", true},
		{UseMount, "/var/run/udev/**", true},
		{UseMount, "/run/udev/data/**", false},
		{UseRead, "/run/udev/**", true},
		{UseRead, "/run/udev/data/**", false},
		{UseMount, "/usr/bin/x", false}, // read-only
		{UseMount, "/opt/**", false},
		{UseHook, "/usr/**", false},
		{UseEnv, "LD_*", true},
		{UseEnv, "LD_PRELOAD", true},
		{UseEnv, "L*", false},
		{UseEnv, "ACME_*", false},
	} {
		if got := NeverAllowed(c.use, c.entry); (got != "") != c.never {
			t.Errorf("%s %s: %q", c.use, c.entry, got)
		}
	}
}

// Verifies that a block device is given if the configuration has its exact path, also one that is known as a disk by its name
// or that a link leads to, and not by a pattern, and that memory and the node's registers are not given that way.
func TestBlockDevices(t *testing.T) {
	host := testHost(t, map[string]string{"dev/disk/by-id/x": "../../loop7"})
	for name, kind := range map[string]uint32{"/dev/loop7": unix.S_IFBLK, "/dev/acme1": unix.S_IFBLK, "/dev/ng0n1": unix.S_IFCHR} {
		if err := unix.Mknod(host.at(name), kind|0o600, int(unix.Mkdev(7, 7))); errors.Is(err, unix.EPERM) {
			testhost.Lacks(t, "mknod is not allowed here: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	put(t, host.at("/dev/mem"), "", 0o600)
	const none = "is never given to a container: it is a disk; allow.devices gives one by its exact path"
	for _, c := range []struct {
		node    string
		allowed []string
		want    string
	}{
		{"/dev/loop7", []string{"/dev/loop7"}, ""},
		{"/dev/loop7", []string{"/dev/loop*"}, none},
		{"/dev/loop7", []string{"/dev/**"}, none},
		{"/dev/ng0n1", []string{"/dev/ng0n1"}, ""},
		{"/dev/ng0n1", []string{"/dev/ng*"}, none},
		{"/dev/acme1", []string{"/dev/acme1"}, ""},
		{"/dev/acme1", []string{"/dev/acme*"}, "is a block device, which no pattern gives to containers: if they may have it, add to this backend allow: {devices: [/dev/acme1]}"},
		{"/dev/disk/by-id/x", []string{"/dev/disk/by-id/x"}, `leads to "/dev/loop7", which is never given`},
		{"/dev/disk/by-id/x", []string{"/dev/disk/by-id/x", "/dev/loop7"}, ""},
		{"/dev/mem", []string{"/dev/mem"}, "is never given to a container: it reaches memory"},
	} {
		for _, accept := range []bool{false, true} {
			policy := Policy{Allowed: EditScope{Devices: c.allowed}, Declared: EditScope{Devices: []string{"/dev/**"}}, AcceptDeclared: accept, Host: host}
			expect(t, c.node, policy, nodeEdits(c.node), c.want)
		}
	}
	policy := Policy{Allowed: EditScope{Mounts: []string{"/dev/loop7", "/dev/acme1"}, Devices: []string{"/dev/loop7", "/dev/acme1"}}, Host: host}
	expect(t, "a disk as a mount", policy, mountEdits("/dev/loop7", false), "never given")
	expect(t, "a block device as a mount", policy, mountEdits("/dev/acme1", false), "is a block device, which containers never get")
}

var proposal = regexp.MustCompile(`add to this backend allow: (\{.*?\})(?: \(|$)`)

// Verifies that what a message proposes helps: with the entries that messages about an edit propose, one after the other, the
// edit is given.
func TestProposalsHelp(t *testing.T) {
	host := testHost(t, map[string]string{"opt/acme/l*nk": "/srv/[x]", "dev/link": "acme0", "opt/acme/all": "/", "opt/acme/c": "/run/containerd"}, "srv/[x]", "dev/loop0", "usr/bin/a?", "usr/bin/hook", "run/containerd/x", "etc/shadow", "dev/mem")
	names := []string{
		"/opt/acme/l*nk", "/opt/acme/all", "/opt/acme/c", "/srv/[x]", "/srv", "/dev/link", "/dev/acme0", "/dev/loop0", "/dev/loop9", "/dev/mem", "/usr/bin/a?", "/usr/bin/hook", "/run", "/run/containerd/x",
		"/etc/shadow", "/etc", "/", "/dev", "/none/x", "ACME", "LD_PRELOAD", "can0", "lo",
	}
	scopes := []string{"/**", "/dev/*", "/dev/**", "/opt/acme/*", "/srv/*", "/usr/bin/*", "/run/**", "*", "A*", "can*"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "name")
		kind := rapid.SampledFrom([]*editKind{&nodeEdit, &mountEdit, &readEdit, &hookEdit, &variedEdit, &netEdit}).Draw(t, "kind")
		wire := kind.wire(name)
		if kind == &netEdit {
			wire = &backendv1.ContainerEdits{NetDevices: []*backendv1.NetDevice{{HostName: name}}}
		}
		declared := kind.declares(rapid.SliceOf(rapid.SampledFrom(scopes)).Draw(t, "declared")...)
		policy := Policy{Declared: declared, AcceptDeclared: rapid.Bool().Draw(t, "accept"), Host: host}
		for range 4 { // what a link leads to is another entry
			_, _, err := ParseEdits(policy, wire)
			if err == nil {
				return
			}
			found := proposal.FindStringSubmatch(err.Error())
			if found == nil {
				return
			}
			var lists struct {
				Devices, Mounts, Hooks, Env []string
				NetDevices                  []string `yaml:"netDevices"`
			}
			if err := yaml.Unmarshal([]byte(found[1]), &lists); err != nil {
				t.Fatalf("%s: %v", found[1], err)
			}
			a := &policy.Allowed
			a.Devices, a.Mounts, a.Hooks = append(a.Devices, lists.Devices...), append(a.Mounts, lists.Mounts...), append(a.Hooks, lists.Hooks...)
			a.Env, a.NetDevices = append(a.Env, lists.Env...), append(a.NetDevices, lists.NetDevices...)
			for use, entries := range map[Use][]string{UseNode: lists.Devices, UseMount: lists.Mounts, UseHook: programs(lists.Hooks), UseEnv: lists.Env} {
				for _, entry := range entries {
					if never := NeverAllowed(use, entry); never != "" {
						t.Fatalf("%s: proposes %s, which is refused for %s", err, entry, never)
					}
				}
			}
		}
		_, _, err := ParseEdits(policy, wire)
		t.Fatalf("with all that was proposed (%+v): %v", policy.Allowed, err)
	})
	if _, err := os.Stat(filepath.Join(filepath.Dir(host.Devfs), "srv/[x]")); err != nil {
		t.Fatal(err)
	}
}
