package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/hostfs"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	testhost "github.com/accelmux/accelmux/test/host"
)

// testHost is a host with files, and with links by their names.
func testHost(t *testing.T, links map[string]string, files ...string) Host {
	t.Helper()
	root := t.TempDir()
	for _, name := range append([]string{"dev/acme0", "proc/x", "sys/x"}, files...) {
		put(t, filepath.Join(root, name), "", 0o755)
	}
	for name, target := range links {
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.Symlink(target, name)); err != nil {
			t.Fatal(err)
		}
	}
	return Host{Host: hostfs.Host{Devfs: filepath.Join(root, "dev"), Sysfs: filepath.Join(root, "sys"), Procfs: filepath.Join(root, "proc")}}
}

func put(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode), os.Chmod(name, mode)); err != nil {
		t.Fatal(err)
	}
}

// at is the path in this process of a path of the host.
func (h Host) at(hostPath string) string { return filepath.Join(filepath.Dir(h.Devfs), hostPath) }

func nodeEdits(path string) *backendv1.ContainerEdits {
	return &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: path}}}
}

func mountEdits(path string, writable bool) *backendv1.ContainerEdits {
	return &backendv1.ContainerEdits{Mounts: []*backendv1.Mount{{HostPath: path, ContainerPath: "/x", Writable: writable}}}
}

func hookEdits(path string) *backendv1.ContainerEdits {
	return &backendv1.ContainerEdits{Hooks: []*backendv1.OciHook{{HookName: "createRuntime", Path: path}}}
}

// expect checks the error of edits, which begins with "": none.
func expect(t *testing.T, what string, p Policy, wire *backendv1.ContainerEdits, want string) {
	t.Helper()
	_, _, err := ParseEdits(p, wire)
	var refused *policyError
	if want == "" && err != nil || want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// Verifies that what links lead to is checked, with a configuration that accepts what is declared
// and with one that lists it, and that the message has what it is and what to do.
func TestLinksAreChecked(t *testing.T) {
	host := testHost(t, map[string]string{
		"opt/acme/e": "/etc", "opt/acme/all": "/", "opt/acme/kubelet": "../../var/lib/kubelet", "opt/acme/specs": "/etc/cdi", "opt/acme/state": "/data/state", "opt/acme/srv": "/srv", "opt/acme/ssh": "/etc/ssh/key",
		"opt/acme/lib.so": "lib.so.1", "opt/acme/usr.so": "/usr/lib/acme/lib.so", "opt/acme/p": "/proc/1/root", "opt/acme/away": "/etc/none", "opt/acme/mem": "/dev/mem", "var/run": "/run",
		"run/driver/lib/secret": "/etc/shadow", "dev/link0": "acme0", "dev/acme1": "kvm", "dev/acme2": "sda", "dev/acme3": "/run/driver/dev/acme3", "dev/acme4": "/run/none", "dev/acme5": "disk",
		"dev/acme6": "null", "dev/acme8": "acme9", "usr/bin/acme-hook": "/opt/acme/hook", "usr/bin/b-hook": "/usr/lib/acme/hook",
	}, "etc/ssh/key", "etc/shadow", "var/lib/kubelet/pki/key", "etc/cdi/x", "data/state/x", "srv/db/x", "home/alice/x", "opt/acme/lib.so.1", "usr/lib/acme/lib.so", "usr/lib/acme/hook", "opt/acme/hook",
		"dev/kvm", "dev/sda", "dev/disk/by-id/x", "dev/null", "dev/mem", "run/driver/dev/acme3", "run/acme/x")
	host.Private = []string{"/var/run/kubelet", "/etc/cdi", "/data/state"}
	accept := Policy{
		Declared: EditScope{Devices: []string{"/dev/acme*", "/dev/link*"}, Mounts: []string{"/var/run/acme"}, ReadOnlyMounts: []string{"/opt/acme/**", "/run/driver/**"}, Hooks: []string{"/usr/bin/*-hook"}},
		Host:     host,
	}
	list := accept
	accept.AcceptDeclared, list.Allowed = true, accept.Declared
	list.Allowed.Mounts = []string{"/opt/acme/**", "/run/driver/**", "/var/run/acme"}
	for path, want := range map[string][2]string{
		"/opt/acme/lib.so":                {"", ""},
		"/opt/acme/usr.so":                {`leads to "/usr/lib/acme/lib.so", which the conf`, `leads to "/usr/lib/acme/lib.so", which the configuration does not allow: if containers may have that, add to this backend allow: {mounts: [/usr/lib/acme/lib.so]}`},
		"/opt/acme/e":                     {`leads to "/etc", which is never given to a container: it is a directory of kubelet`, `leads to "/etc", which is never`},
		"/opt/acme/e/ssh/key":             {`leads to "/etc/ssh/key", which the conf`, `leads to "/etc/ssh/key", which the conf`},
		"/opt/acme/all":                   {`leads to "/", which is never`, `leads to "/", which is never`},
		"/opt/acme/all/home/alice":        {`leads to "/home/alice", which the conf`, `leads to "/home/alice", which the conf`},
		"/opt/acme/kubelet/pki":           {`leads to "/var/lib/kubelet/pki", which is never`, `leads to "/var/lib/kubelet/pki", which is never`},
		"/opt/acme/specs":                 {`leads to "/etc/cdi", which is never given to a container: it is a directory of kubelet`, `leads to "/etc/cdi", which is never`},
		"/opt/acme/state":                 {`leads to "/data/state", which is never`, `leads to "/data/state", which is never`},
		"/opt/acme/srv":                   {`leads to "/srv", which the conf`, `leads to "/srv", which the conf`},
		"/opt/acme/p":                     {`leads to "/proc/1/root", which is never`, `leads to "/proc/1/root", which is never`},
		"/opt/acme/away":                  {`leads to "/etc/none", which the conf`, `leads to "/etc/none", which the conf`},
		"/opt/acme/mem":                   {`leads to "/dev/mem", which is never`, `leads to "/dev/mem", which is never`},
		"/run/driver/lib/secret":          {`leads to "/etc/shadow", which is never`, `leads to "/etc/shadow", which is never`},
		"/run/driver/proc/self/root/etc":  {"is never given", "is never given"},
		"/run/driver/proc/12/cwd/../../x": {"not clean", "not clean"},
		"/opt/acme/none":                  {"is in none of the directories in hostPaths.edits", "does not exist on the node, or"},
	} {
		for i, p := range []Policy{accept, list} {
			_, _, err := ParseEdits(p, mountEdits(path, false))
			if (err == nil) != (want[i] == "") || err != nil && !strings.Contains(err.Error(), want[i]) {
				t.Errorf("mount %s, listed %d: %v, want %q", path, i, err, want[i])
			}
		}
	}
	for i, p := range []Policy{accept, list} {
		expect(t, fmt.Sprint("a writable mount through /var/run, listed ", i), p, mountEdits("/var/run/acme", true), "")
	}
	if err := os.Chmod(host.at("/var"), 0o775); err != nil {
		t.Fatal(err)
	}
	expect(t, "a link that others can change", list, mountEdits("/var/run/acme", true), `leads to "/run/acme", which the conf`)
	list.Allowed.Mounts = []string{"/opt/acme/**", "/opt/acme/e/**"}
	expect(t, "what a link in another entry leads to", list, mountEdits("/opt/acme/ssh", false), `leads to "/etc/ssh/key", which the conf`)
	for path, want := range map[string]string{
		"/dev/link0": "", "/dev/acme1": `leads to "/dev/kvm", which the conf`, "/dev/acme2": `leads to "/dev/sda", which is never`, "/dev/acme3": `leads to "/run/driver/dev/acme3", which the conf`,
		"/dev/acme4": `leads to "/run/none", which the conf`, "/dev/acme8": `leads to "/dev/acme9", which does not exist`, "/dev/acme5": `leads to "/dev/disk", which is never`, "/dev/acme6": "", "/dev/acme7": "",
	} {
		expect(t, "node "+path, accept, nodeEdits(path), want)
	}
	expect(t, "a node of another root, listed", list, nodeEdits("/dev/acme3"), `leads to "/run/driver/dev/acme3", which the configuration does not allow`)
	expect(t, "a hook", accept, hookEdits("/usr/bin/acme-hook"), `leads to "/opt/acme/hook", which the conf`)
	expect(t, "a hook, listed", list, hookEdits("/usr/bin/acme-hook"), `leads to "/opt/acme/hook", which the conf`)
}

// Verifies that a mount is checked by where it is without bind mounts, and with what is mounted
// below it.
func TestBindMountsAreChecked(t *testing.T) {
	host := testHost(t, nil, "opt/acme/etc/x", "opt/acme/lib/x", "opt/acme/all/opt/acme/lib/x", "opt/acme/cdi/x", "opt/deep/down/x", "opt/data/x", "opt/state/x", "run/state/x", "run/cdi/x", "etc/x")
	root := filepath.Dir(host.Devfs)
	put(t, host.at("/proc/self/mountinfo"), strings.ReplaceAll(`1 0 8:1 / ~ rw - ext4 none rw
2 1 8:1 /etc ~/opt/acme/etc rw - ext4 none rw
3 1 8:1 / ~/opt/acme/all rw - ext4 none rw
4 1 0:7 / ~/run rw - tmpfs none rw
5 1 0:7 /cdi ~/opt/acme/cdi rw - tmpfs none rw
6 1 8:1 /etc/kubernetes ~/opt/deep/down rw - ext4 none rw
7 1 8:2 /acme ~/opt/data rw - ext4 none rw
8 1 8:1 /opt/state ~/run/state rw - ext4 none rw
`, "~", root), 0o600)
	host.Private = []string{"/run/cdi", "/run/state"}
	p := Policy{Declared: EditScope{Mounts: []string{"/opt/**"}}, Allowed: EditScope{Mounts: []string{"/opt/**"}}, Host: host}
	for path, want := range map[string]string{
		"/opt/acme/lib": "", "/opt/data": "", "/opt/acme/all/opt/acme/lib": "",
		"/opt/state":    "is never given to a container",
		"/opt/acme/etc": `is a mount of "/etc", which is never`, "/opt/acme/all": `is a mount of "/", which is never`,
		"/opt/acme/cdi": `is a mount of "/run/cdi", which is never given to a container: it is a directory of kubelet`, "/opt/deep": `is a mount of "/etc/kubernetes", which is never`, "/opt/acme": `is a mount of`,
	} {
		expect(t, path, p, mountEdits(path, false), want)
	}
}

// Verifies that directories of the agent and of kubelet are never given, nor those around them.
func TestPrivateDirectories(t *testing.T) {
	host := testHost(t, map[string]string{"var/run": "/run"}, "run/cdi/x", "run/cdi2", "run/acme/x", "data/kube")
	host.Private = []string{"/var/run/cdi", "/data/kubelet"}
	p := Policy{Declared: everything, Allowed: everything, Host: host}
	for _, path := range []string{"/run/cdi", "/run", "/var/run/cdi/x", "/data/kubelet/pki", "/data", "/var/run"} {
		expect(t, path, p, mountEdits(path, false), "is never given to a container")
	}
	for _, path := range []string{"/run/cdi2", "/data/kube", "/run/acme"} {
		expect(t, path, p, mountEdits(path, false), "")
	}
}

// Verifies that nothing is given that another than root could exchange after the check.
func TestExchangeableFiles(t *testing.T) {
	host := testHost(t, map[string]string{"var/run": "/run", "opt/link": "/run/acme/x"}, "run/acme/x", "run/acme/d/x", "tmp/mine/x", "open/x", "dev/sub/acme0", "run/state/hook")
	for name, mode := range map[string]os.FileMode{"/tmp": 0o777 | os.ModeSticky, "/open": 0o777} {
		if err := os.Chmod(host.at(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	p := Policy{Declared: everything, Allowed: everything, Writes: []string{"/var/run/acme/**", "/dev/sub/*", "/run/state/file", "/sys/**"}, Host: host}
	for path, want := range map[string]string{
		"/run/acme": "", "/run/acme/x": "/run/acme, where the backend's own process may write (/run/acme/**", "/var/run/acme/d/x": "own process may write", "/opt/link": "own process may write",
		"/tmp/mine": "", "/open/x": "/open, where everybody may put something else", "/run/state/hook": "", "/sys/x": "",
	} {
		expect(t, path, p, mountEdits(path, false), want)
	}
	expect(t, "a node", p, nodeEdits("/dev/sub/acme0"), "own process may write")
	if os.Getuid() != 0 {
		testhost.Lacks(t, "only root can give files to another user")
	}
	if err := os.Lchown(host.at("/tmp/mine"), 4711, 0); err != nil {
		t.Fatal(err)
	}
	expect(t, "another user's file in /tmp", p, mountEdits("/tmp/mine", false), "everybody may put something else")
}

// Verifies that a node is checked by its kind and number, whatever its name, also as a mount.
func TestNumbersAreChecked(t *testing.T) {
	host := testHost(t, nil)
	for number, name := range map[string]string{"10:232": "kvm", "4:0": "tty0", "300:0": "acme/0", "300:1": "acme1", "301:0": "other0", "1:11": "kmsg"} {
		put(t, host.at("/sys/dev/char/"+number+"/uevent"), "DEVNAME="+name+"\n", 0o600)
	}
	put(t, host.at("/proc/devices"), "Character devices:\n  1 mem\n 10 misc\n195 nvidia\n136 pts\n", 0o600)
	p := Policy{Declared: EditScope{Devices: []string{"/dev/acme*", "/dev/acme/*", "/dev/null", "/run/driver/dev/acme*"}, ReadOnlyMounts: []string{"/dev/acme*", "/run/driver/dev/**"}}, AcceptDeclared: true, Host: host}
	for _, tc := range []struct {
		name         string
		kind         uint32
		major, minor uint32
		want         string
	}{
		{"/dev/acme1", unix.S_IFCHR, 300, 1, ""},
		{"/dev/acme/0", unix.S_IFCHR, 300, 0, ""},
		{"/run/driver/dev/acme1", unix.S_IFCHR, 300, 1, ""},
		{"/dev/acme2", unix.S_IFCHR, 300, 1, ""}, // another name for what is allowed
		{"/dev/acme3", unix.S_IFCHR, 301, 0, `has the number of "/dev/other0", which the conf`},
		{"/dev/acme4", unix.S_IFCHR, 195, 0, ""},
		{"/dev/acme5", unix.S_IFCHR, 1, 3, ""},
		{"/dev/acme6", unix.S_IFCHR, 777, 1, ""},  // no driver has it
		{"/dev/acme7", unix.S_IFCHR, 10, 238, ""}, // a static node, whose module is not loaded
		{"/dev/acme10", unix.S_IFCHR, 10, 232, `has the number of "/dev/kvm", which the configuration does not allow`},
		{"/dev/acme11", unix.S_IFCHR, 1, 1, `has the number of "/dev/mem", which is never`},
		{"/dev/acme12", unix.S_IFCHR, 1, 11, `has the number of "/dev/kmsg", which is never`},
		{"/dev/acme13", unix.S_IFCHR, 4, 0, `has the number of "/dev/tty0", which the conf`},
		{"/dev/acme14", unix.S_IFCHR, 136, 5, ""}, // root made a node of a driver whose nodes the kernel does not make
		{"/dev/acme15", unix.S_IFBLK, 7, 0, "is a block device"},
		{"/run/driver/dev/acme16", unix.S_IFBLK, 7, 0, "is a block device"},
		{"/dev/acme17", unix.S_IFIFO, 0, 0, "is a pipe or a socket"},
	} {
		if err := os.MkdirAll(filepath.Dir(host.at(tc.name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mknod(host.at(tc.name), tc.kind|0o600, int(unix.Mkdev(tc.major, tc.minor))); errors.Is(err, unix.EPERM) {
			testhost.Lacks(t, "mknod is not allowed here: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
		expect(t, "node "+tc.name, p, nodeEdits(tc.name), tc.want)
		listed := p
		listed.AcceptDeclared, listed.Allowed = false, EditScope{Devices: p.Declared.Devices}
		want := tc.want
		expect(t, "node "+tc.name+", listed", listed, nodeEdits(tc.name), want)
		if tc.kind != unix.S_IFIFO {
			listed = Policy{Declared: p.Declared, Allowed: EditScope{Mounts: p.Declared.ReadOnlyMounts, Devices: p.Declared.Devices}, Host: host}
			if tc.name != "/dev/acme/0" {
				expect(t, "mount "+tc.name, listed, mountEdits(tc.name, false), want)
			}
		}
	}
	if err := os.Mkdir(host.at("/dev/acme18"), 0o755); err != nil {
		t.Fatal(err)
	}
	expect(t, "a directory", p, nodeEdits("/dev/acme18"), "is a directory")
}

// Verifies that a hook program is root's alone, and the one whose digest is allowed, and that a
// refusal proposes the entry with the digest.
func TestHookPrograms(t *testing.T) {
	host := testHost(t, nil, "usr/bin/acme-hook", "usr/bin/dir-hook/x", "usr/loose/hook")
	const empty, other = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
	const hook = "/usr/bin/acme-hook"
	p := Policy{Declared: EditScope{Hooks: []string{"/usr/**"}}, Host: host}
	allow := func(entries ...string) Policy { p.Allowed.Hooks = entries; return p }
	expect(t, "not allowed", allow(), hookEdits(hook), "hooks: ['"+hook+"@sha256:"+empty+"']")
	expect(t, "listed", allow(hook), hookEdits(hook), "")
	expect(t, "listed with its digest", allow(hook+"@sha256:"+empty), hookEdits(hook), "")
	expect(t, "listed with both", allow(hook+"@sha256:"+other, "/usr/bin/*@sha256:"+empty), hookEdits(hook), "")
	expect(t, "another program", allow(hook+"@sha256:"+other), hookEdits(hook), "is another one than the configuration allows: if it was updated, add to this backend allow: {hooks: ['"+hook+"@sha256:"+empty+"']}")
	expect(t, "not visible", allow("/usr/lib/x-hook"), hookEdits("/usr/lib/x-hook"), "does not exist")
	expect(t, "a directory", allow("/usr/**"), hookEdits("/usr/bin/dir-hook"), "is not a regular file")
	inContainer := hookEdits("/usr/lib/x-hook")
	inContainer.Hooks[0].HookName = "startContainer"
	expect(t, "a program of the container", allow("/usr/**"), inContainer, "")
	for _, change := range []struct {
		name string
		mode os.FileMode
		want string
	}{
		{"/usr/bin/acme-hook", 0o775, "can be changed by others than root, and runs as root: chown root:root /usr/bin/acme-hook and chmod go-w /usr/bin/acme-hook"},
		{"/usr/bin/acme-hook", 0o755, ""},
		{"/usr/bin", 0o775, "can be exchanged by others than root, and runs as root: chown root:root /usr/bin and"},
		{"/usr/bin", 0o777 | os.ModeSticky, "can be exchanged by others than root"},
		{"/usr/bin", 0o755, ""},
	} {
		if err := os.Chmod(host.at(change.name), change.mode); err != nil {
			t.Fatal(err)
		}
		expect(t, fmt.Sprint(change), allow("/usr/**"), hookEdits(hook), change.want)
	}
}

// Verifies that a device is left out when the host's files change after its report, comes back
// when they are as before, and that edits are refused meanwhile when they are to be written.
func TestRecheck(t *testing.T) {
	s, _ := newTestStore(t)
	host := testHost(t, map[string]string{"opt/acme/lib": "lib.1"}, "opt/acme/lib.1", "usr/bin/acme-hook", "etc/ssl/key")
	policy := testPolicy
	policy.Host = host
	describe(s, "mock", testDesc, policy)
	b := mustReport(t, s, inv(1, wireDevice("GPU-0"), wireDevice("GPU-1")))
	edits := b.Devices[0].Edits
	link := func(target string) {
		t.Helper()
		if err := errors.Join(os.Remove(host.at("/opt/acme/lib")), os.Symlink(target, host.at("/opt/acme/lib"))); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.OnHost()("mock", edits); err != nil || got.Mounts[0].HostPath != "/opt/acme/lib.1" || edits.Mounts[0].HostPath != "/opt/acme/lib" {
		t.Errorf("edits %+v, %v", got, err)
	}
	for woken(s) {
	}
	s.Recheck()
	if woken(s) {
		t.Error("a check without a change is a change")
	}
	link("/etc/ssl")
	if _, err := s.OnHost()("mock", edits); err == nil || !strings.Contains(err.Error(), `leads to "/etc/ssl"`) {
		t.Errorf("the changed link is given: %v", err)
	}
	s.Recheck()
	if b = s.Snapshot().Backends[0]; len(b.Devices) != 0 || len(b.Problems) != 2 || !strings.Contains(b.Problems[0].Message, `leads to "/etc/ssl"`) || !woken(s) {
		t.Errorf("devices %s with problems %v", ids(b.Devices), b.Problems)
	}
	if b = mustReport(t, s, inv(2, wireDevice("GPU-0"), wireDevice("GPU-1"))); len(b.Devices) != 0 {
		t.Errorf("the next report has %s again", ids(b.Devices))
	}
	link("lib.1")
	s.Recheck()
	if b = s.Snapshot().Backends[0]; len(b.Devices) != 2 || len(b.Problems) != 0 {
		t.Errorf("devices %s with problems %v", ids(b.Devices), b.Problems)
	}
	if _, err := s.OnHost()("elsewhere", Edits{Mounts: []Mount{{HostPath: "/"}}}); err != nil {
		t.Errorf("a backend that is not configured: %v", err)
	}
}

// Verifies that a listed device stays when files that its containers get are no longer on the node, as it does without its
// device node, also with the next report and after a restart of the agent; one that was not listed gets in only with them.
func TestFilesVanish(t *testing.T) {
	s, _ := newTestStore(t)
	host := testHost(t, map[string]string{"opt/acme/lib": "lib.1"}, "opt/acme/lib.1", "usr/bin/acme-hook")
	policy := testPolicy
	policy.Host = host
	describe(s, "mock", testDesc, policy)
	before := mustReport(t, s, inv(1, wireDevice("GPU-0"))).Devices[0]
	for _, file := range []string{"/opt/acme/lib.1", "/opt/acme/lib", "/usr/bin/acme-hook"} {
		if err := os.Rename(host.at(file), host.at(file)+"~"); err != nil {
			t.Fatal(err)
		}
		s.Recheck()
		if b := s.Snapshot().Backends[0]; len(b.Devices) != 1 || b.Devices[0] != before || len(b.Problems) > 0 {
			t.Errorf("without %s: devices %s, %v", file, ids(b.Devices), b.Problems)
		}
		b := mustReport(t, s, inv(s.sources["mock"].last+1, wireDevice("GPU-0"), wireDevice("GPU-1")))
		if ids(b.Devices) != "GPU-0" || len(b.Problems) != 1 || b.Problems[0].Device != "GPU-1" || !strings.Contains(b.Problems[0].Message, "does not exist") {
			t.Errorf("without %s the next report gives devices %s, %v", file, ids(b.Devices), b.Problems)
		}
		if err := os.Rename(host.at(file)+"~", host.at(file)); err != nil {
			t.Fatal(err)
		}
		if b := mustReport(t, s, inv(s.sources["mock"].last+1, wireDevice("GPU-0"))); b.Devices[0] != before {
			t.Errorf("with %s again it is another device", file)
		}
	}
	if b := mustReport(t, s, inv(s.sources["mock"].last+1, wireDevice("GPU-0"), wireDevice("GPU-1"))); ids(b.Devices) != "GPU-0 GPU-1" {
		t.Errorf("with all files the devices are %s, %v", ids(b.Devices), b.Problems)
	}
}

// Verifies that a container gets the groups that own its nodes, and those that the
// configuration names, and that others, such as those of disks, are left out. The group of a node that is not on the host,
// as its driver was unloaded, is no problem beside that.
func TestAdditionalGroups(t *testing.T) {
	policy := testPolicy
	policy.Host, policy.Allowed.GIDs = testHost(t, nil), []uint32{77}
	own := uint32(os.Getgid())
	const disk, kmem, shadow = 6, 15, 42
	want := []uint32{own, 77}
	if own == 0 {
		want, own = []uint32{77}, 77 // root's is refused as such
	}
	e, remark, err := ParseEdits(policy, &backendv1.ContainerEdits{
		DeviceNodes:    []*backendv1.DeviceNode{{Path: "/dev/acme0"}},
		AdditionalGids: []uint32{own, 77, disk, kmem, shadow},
	})
	slices.Sort(want)
	if err != nil || !slices.Equal(e.AdditionalGIDs, want) || len(e.DeviceNodes) != 1 {
		t.Errorf("groups %v with %d nodes, want %v with 1: %v", e.AdditionalGIDs, len(e.DeviceNodes), want, err)
	}
	if !strings.Contains(remark, "allow: {gids: [6, 15, 42]}") {
		t.Errorf("the remark is %q", remark)
	}
	policy.Declared.GIDs, policy.AcceptDeclared = []uint32{disk, kmem}, true
	if e, remark, err = ParseEdits(policy, &backendv1.ContainerEdits{AdditionalGids: []uint32{77, disk, kmem, shadow}}); err != nil ||
		!slices.Equal(e.AdditionalGIDs, []uint32{disk, kmem, 77}) || !strings.Contains(remark, "allow: {gids: [42]}") {
		t.Errorf("declared groups: %v, remark %q: %v", e.AdditionalGIDs, remark, err)
	}
	policy.Declared.GIDs = nil
	if e, remark, err = ParseEdits(policy, &backendv1.ContainerEdits{
		DeviceNodes:    []*backendv1.DeviceNode{{Path: "/dev/acme0"}, {Path: "/dev/acme1"}},
		AdditionalGids: []uint32{disk},
	}); err != nil || len(e.AdditionalGIDs) > 0 || remark != "" {
		t.Errorf("the group of a node that is missing: %v, remark %q: %v", e.AdditionalGIDs, remark, err)
	}
}

// Verifies that an optional mount that is not allowed is left out, with a problem, and that a
// device with a mandatory one is.
func TestOptionalMounts(t *testing.T) {
	mounts := []*backendv1.Mount{{HostPath: "/opt/acme/lib.so", ContainerPath: "/lib.so"}}
	for _, name := range []string{"/a", "/b", "/c", "/d", "/e"} {
		mounts = append(mounts, &backendv1.Mount{HostPath: "/etc/acme" + name, ContainerPath: name, Optional: true})
	}
	s, _ := newTestStore(t)
	device := wireDevice("GPU-0")
	device.Edits.Mounts = mounts
	b := mustReport(t, s, inv(1, device))
	if len(b.Devices) != 1 || len(b.Devices[0].Edits.Mounts) != 1 {
		t.Fatalf("devices %s with problems %v", ids(b.Devices), b.Problems)
	}
	if len(b.Problems) != 1 || !strings.Contains(b.Problems[0].Message, "allow: {mounts: [/etc/acme/a, /etc/acme/b, /etc/acme/c, /etc/acme/d, /etc/acme/e]}") {
		t.Errorf("problems %v", b.Problems)
	}
	mounts[1].Optional = false
	if b = mustReport(t, s, inv(2, device)); len(b.Devices) != 0 {
		t.Errorf("a mount that is needed and not allowed leaves %s", ids(b.Devices))
	}
}

// Verifies that a manifest's read-only mounts are not writable, and that those of the configuration may be.
func TestReadOnlyMounts(t *testing.T) {
	declared := EditScope{Mounts: []string{"/run/acme/socket"}, ReadOnlyMounts: []string{"/usr/lib/**"}}
	policy := Policy{Allowed: EditScope{Mounts: []string{"/opt/**"}}, Declared: declared, AcceptDeclared: true}
	for name, allowed := range map[string][2]bool{"/usr/lib/x.so": {true, false}, "/run/acme/socket": {true, true}, "/opt/x": {true, true}, "/etc/x": {false, false}} {
		for i, writable := range []bool{false, true} {
			if err := policy.checkMount(name, writable); (err == nil) != allowed[i] {
				t.Errorf("%s, writable %v: %v", name, writable, err)
			}
		}
	}
}

// Verifies that edits that were accepted earlier are refused when the configuration does not allow their
// paths any more, with what to add to it, also before the backend is described; and that other needs of
// the backend, and paths that are accepted as declared, do not matter.
func TestAcceptedEarlier(t *testing.T) {
	const hook = "/usr/bin/acme-hook"
	host := testHost(t, map[string]string{"opt/acme/link": "/etc/ssl"}, "opt/acme/lib", "usr/bin/acme-hook", "etc/ssl/key")
	host.NetHook = "/var/lib/accelmux/accelmux-net-hook"
	edits := Edits{
		DeviceNodes: []DeviceNode{{HostPath: "/dev/acme0"}, {HostPath: "/dev/null"}},
		Mounts:      []Mount{{HostPath: "/opt/acme/lib"}},
		Hooks:       []OCIHook{{Name: "createRuntime", Path: hook}, {Name: "createRuntime", Path: host.NetHook}},
	}
	all := EditScope{Devices: []string{"/dev/acme*"}, Mounts: []string{"/opt/**"}, Hooks: []string{hook}}
	linked := Edits{Mounts: []Mount{{HostPath: "/opt/acme/link"}}}
	for name, test := range map[string]struct {
		policy Policy
		edits  Edits
		want   string
	}{
		"listed":           {Policy{Allowed: all}, edits, ""},
		"accepted":         {Policy{AcceptDeclared: true}, edits, ""},
		"no longer listed": {Policy{Allowed: EditScope{Mounts: all.Mounts}}, edits, "allow: {devices: [/dev/acme0], hooks: [" + hook + "]}"},
		"never given":      {Policy{Allowed: EditScope{Devices: []string{"/**"}}}, Edits{DeviceNodes: []DeviceNode{{HostPath: "/dev/mem"}}}, "never given"},
		"a link":           {Policy{Allowed: all}, linked, `leads to "/etc/ssl"`},
		"an accepted link": {Policy{AcceptDeclared: true}, linked, ""},
	} {
		s := NewStore(nil)
		test.policy.Host = host
		s.SetPolicies(map[string]Policy{"mock": test.policy})
		for range 2 {
			if _, err := s.OnHost()("mock", test.edits); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", name, err, test.want)
			}
			describe(s, "mock", Description{Name: "mock"}, test.policy) // without any needs
		}
	}
}

// Verifies that a device has the PCIe root of its address, if sysfs has it.
func TestPCIeRoot(t *testing.T) {
	policy := testPolicy
	policy.Host = testHost(t, map[string]string{"sys/bus/pci/devices/0000:65:00.0": "../../../devices/pci0000:64/0000:64:01.0/0000:65:00.0"},
		"sys/devices/pci0000:64/0000:64:01.0/0000:65:00.0/class")
	s := NewStore(nil)
	describe(s, "mock", testDesc, policy)
	devices := wireDevices(3)
	for i, busID := range []string{"0000:65:00.0", "0000:66:00.0", ""} {
		devices[i].PciBusId = busID
		devices[i].Edits = nil
	}
	var got []string
	for _, d := range mustReport(t, s, inv(1, devices...)).Devices {
		got = append(got, d.PCIeRoot)
	}
	if want := []string{"pci0000:64", "", ""}; !slices.Equal(got, want) {
		t.Errorf("the roots are %q, want %q", got, want)
	}
}

// Verifies that the message about a node that links lead to proposes a pattern: the declared one, or one for any
// number, as a device that comes back may have another. It is the same for all such devices, and allows them.
func TestLinkedNodesAreProposedByPattern(t *testing.T) {
	links := map[string]string{"dev/serial/by-id/a": "../../ttyUSB0", "dev/serial/by-id/b": "../../ttyUSB1", "dev/modem": "ttyACM3", "dev/stick": "bus/usb/001/005", "dev/mic": "vhost-pcmC1D0c"}
	host := testHost(t, links, "dev/ttyUSB0", "dev/ttyUSB1", "dev/ttyUSB2", "dev/ttyACM3", "dev/bus/usb/001/005", "dev/vhost-pcmC1D0c")
	declared := EditScope{Devices: []string{"/dev/serial/by-id/*", "/dev/modem", "/dev/stick", "/dev/mic", "/dev/ttyUSB*"}}
	for node, want := range map[string]string{
		"/dev/serial/by-id/a": "/dev/ttyUSB*", "/dev/serial/by-id/b": "/dev/ttyUSB*", "/dev/modem": "/dev/ttyACM[0-9]*",
		"/dev/stick": "/dev/bus/usb/[0-9]*/[0-9]*", "/dev/mic": "/dev/vhost-pcmC[0-9]*D[0-9]*c",
	} {
		policy := Policy{Declared: declared, Allowed: EditScope{Devices: []string{node}}, Host: host}
		_, _, err := ParseEdits(policy, nodeEdits(node))
		if proposed := "allow: " + (EditScope{Devices: []string{want}}).YAML(); err == nil || !strings.HasSuffix(err.Error(), proposed) {
			t.Errorf("%s: %v, want %s", node, err, proposed)
		}
		policy.Allowed.Devices = []string{node, want}
		expect(t, node+" with what is proposed", policy, nodeEdits(node), "")
	}
}

// numbered are edits with a node that has numbers.
func numbered(path, kind string, major, minor uint32) *backendv1.ContainerEdits {
	return &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: path, Type: kind, Major: major, Minor: minor}}}
}

// Verifies that a node that the host does not have is judged by the device that its numbers stand for, whatever its path:
// what nobody gets, block devices but by their exact path, and what is another device that nothing allows.
func TestNumbersOfNodes(t *testing.T) {
	host := testHost(t, nil)
	for number, name := range map[string]string{
		"char/1:1": "mem", "char/1:4": "port", "char/240:7": "acme7", "char/10:232": "kvm", "char/21:0": "sg0", "char/241:0": "acme/ctl", "block/8:0": "sda", "block/43:0": "nbd0",
	} {
		put(t, filepath.Join(host.Sysfs, "dev", number, "uevent"), "DEVNAME="+name+"\n", 0o644)
	}
	put(t, filepath.Join(host.Procfs, "devices"), "Character devices:\n  1 mem\n195 acme\n196 other\n\nBlock devices:\n  8 sd\n", 0o644)
	accept := Policy{Declared: EditScope{Devices: []string{"/dev/acme*", "/run/driver/dev/*"}}, AcceptDeclared: true, Host: host}
	list := Policy{Allowed: EditScope{Devices: []string{"/dev/acme*", "/dev/nbd0", "/dev/nbd1", "/run/driver/dev/*"}}, Host: host}
	for name, c := range map[string]struct {
		edits          *backendv1.ContainerEdits
		accepted, list string
	}{
		"its own number":              {numbered("/dev/acme7", "c", 240, 7), "", ""},
		"by the driver's name":        {numbered("/dev/acme9", "c", 195, 9), "", ""},
		"of another of its nodes":     {numbered("/dev/acme8", "c", 240, 7), "", ""},
		"the null device":             {numbered("/dev/acme8", "c", 1, 3), "", ""},
		"memory":                      {numbered("/dev/acme8", "c", 1, 1), `has the number of "/dev/mem", which is never`, `has the number of "/dev/mem", which is never`},
		"kernel memory, by driver":    {numbered("/dev/acme8", "c", 1, 2), `has the number of "/dev/mem", which is never`, `has the number of "/dev/mem", which is never`},
		"ports":                       {numbered("/dev/acme8", "c", 1, 4), `has the number of "/dev/port", which is never`, `has the number of "/dev/port", which is never`},
		"a disk's generic device":     {numbered("/dev/acme8", "c", 21, 0), `has the number of "/dev/sg0", which is never`, `has the number of "/dev/sg0", which is never`},
		"another device":              {numbered("/dev/acme8", "c", 10, 232), `has the number of "/dev/kvm", which the configuration does not allow`, `has the number of "/dev/kvm", which the configuration does not allow`},
		"another driver":              {numbered("/dev/acme8", "c", 196, 0), `has the number of "/dev/other", which the configuration does not allow`, `which the configuration does not allow`},
		"no driver":                   {numbered("/dev/acme8", "c", 250, 0), "no driver there has its number", "no driver there has its number"},
		"a disk":                      {numbered("/dev/acme8", "b", 8, 0), "is a block device, which no pattern gives", "is a block device, which no pattern gives"},
		"a disk as a listed one":      {numbered("/dev/nbd1", "b", 8, 0), `is a disk`, `has the number of "/dev/sda", which is never`},
		"a listed block device":       {numbered("/dev/nbd0", "b", 43, 0), `is a disk`, ""},
		"a listed one as another":     {numbered("/dev/nbd1", "b", 43, 0), `is a disk`, ""}, // /dev/nbd0 is listed
		"a block device of no name":   {numbered("/dev/nbd1", "b", 44, 0), `is a disk`, "no driver there has its number"},
		"not a block device's number": {numbered("/dev/acme8", "c", 8, 0), "no driver there has its number", "no driver there has its number"},
		"a path that nothing allows":  {numbered("/dev/kvm", "c", 10, 232), "does not allow", "does not allow"},
		"what nobody gets":            {numbered("/dev/mem", "c", 240, 7), "never given", "never given"},
		"below another root":          {numbered("/run/driver/dev/acme7", "c", 240, 7), "does not exist on the node", "does not exist on the node"},
	} {
		expect(t, name+", accepted", accept, c.edits, c.accepted)
		expect(t, name+", listed", list, c.edits, c.list)
	}
	e, _, err := ParseEdits(accept, numbered("/dev/acme7", "c", 240, 7))
	if want := []DeviceNode{{Path: "/dev/acme7", HostPath: "/dev/acme7", Permissions: "rw", Type: "c", Major: 240, Minor: 7}}; err != nil || !slices.Equal(e.DeviceNodes, want) {
		t.Errorf("nodes %+v, %v, want %+v", e.DeviceNodes, err, want)
	}
	// A node that is there must be that device.
	real := func(name string, mode uint32, major, minor uint32) {
		t.Helper()
		if err := unix.Mknod(host.at("/dev/"+name), mode|0o600, int(unix.Mkdev(major, minor))); errors.Is(err, unix.EPERM) {
			testhost.Lacks(t, "device nodes cannot be made here: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	real("acme7", unix.S_IFCHR, 240, 7)
	real("acme6", unix.S_IFBLK, 240, 7)
	real("acme5", unix.S_IFCHR, 8, 0)
	for path, want := range map[string]string{"/dev/acme7": "", "/dev/acme6": "is reported as c 240:7, and is another one", "/dev/acme5": "is another one", "/dev/acme0": "is another one"} {
		expect(t, path+" is there", accept, numbered(path, "c", 240, 7), want)
	}
	expect(t, "a disk under the name of a device that is there", list, numbered("/dev/acme7", "b", 8, 0), "is another one")
	if e, _, err := ParseEdits(Policy{Allowed: EditScope{Devices: []string{"/dev/acme6"}}, Host: host}, nodeEdits("/dev/acme6")); err != nil || e.DeviceNodes[0].Type != "b" || e.DeviceNodes[0].Major != 0 {
		t.Errorf("a listed block device of the host: %+v, %v", e.DeviceNodes, err)
	}
}

// Verifies that every refusal of what the manifest lacks tells its author what to add to it, and the operator what to add to
// the configuration: by name, by what a link leads to, by a number, and for optional edits.
func TestRefusalsForAuthors(t *testing.T) {
	host := testHost(t, map[string]string{"opt/acme/ssh": "/etc/key", "dev/acme1": "kvm"}, "etc/key", "dev/kvm")
	put(t, filepath.Join(host.Sysfs, "dev/char/10:232/uevent"), "DEVNAME=kvm\n", 0o644)
	p := Policy{Declared: EditScope{Devices: []string{"/dev/acme*"}, ReadOnlyMounts: []string{"/opt/acme/**"}}, AcceptDeclared: true, Host: host}
	optional := mountEdits("/opt/acme/ssh", false)
	optional.Mounts[0].Optional = true
	unlisted := mountEdits("/etc/key", false)
	unlisted.Mounts[0].Optional = true
	for name, wire := range map[string]*backendv1.ContainerEdits{
		"by name": nodeEdits("/dev/kvm"), "by a link": nodeEdits("/dev/acme1"), "a mount by a link": mountEdits("/opt/acme/ssh", false),
		"by number": numbered("/dev/acme7", "c", 10, 232), "optional, by a link": optional, "optional": unlisted,
	} {
		for author, want := range map[bool]string{true: "add to containers of the manifest {", false: "add to this backend allow: {"} {
			p.ForAuthor = author
			_, remark, err := ParseEdits(p, wire)
			text := remark + fmt.Sprint(err)
			if !strings.Contains(text, want) || author && (strings.Contains(text, "allow:") || strings.Contains(text, "configuration")) {
				t.Errorf("%s, for the author %v: %s", name, author, text)
			}
		}
	}
}
