package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/host"
)

// Verifies what a policy gives of declared needs, and what is missing then.
func TestGive(t *testing.T) {
	declared := Needs{
		Read: []string{"/sys/**", "/opt/acme/lib", "/a"}, List: []string{"/dev/**", "/sys/x"}, Write: []string{"/a/b", "/c"}, Open: []string{"/dev/acme*"},
		Capabilities: []string{"CAP_SYS_ADMIN"}, SystemCalls: []string{"@raw-io"},
	}
	lists := Needs{Read: []string{"/sys/**", "/opt/**"}, Write: []string{"/a/**"}, Capabilities: []string{"CAP_SYS_ADMIN", "CAP_KILL"}}
	given, missing := Policy{Allowed: lists}.Give(declared)
	if diff := cmp.Diff(lists.Join(Needs{}), given); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
	want := Needs{List: []string{"/dev/**"}, Write: []string{"/c"}, Open: []string{"/dev/acme*"}, SystemCalls: []string{"@raw-io"}}
	if diff := cmp.Diff(want, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	given, missing = Policy{Allowed: lists, AcceptDeclared: true}.Give(declared)
	if !given.Covers(declared) || !given.Covers(lists) || !missing.Empty() {
		t.Errorf("accepted as declared: %+v, missing %+v", given, missing)
	}
}

// Verifies that patterns are moved to the places of the host's trees, and nothing else.
func TestPlaces(t *testing.T) {
	p := Paths{Sysfs: "/host/sys", Devfs: "/host/d*v", Procfs: "/proc"}
	for pattern, want := range map[string]string{
		"/sys": "/host/sys", "/sys/**": "/host/sys/**", "/system/x": "/system/x", "/dev/dri/card*": `/host/d\*v/dri/card*`, "/proc/**": "/proc/**", "/opt/sys": "/opt/sys",
	} {
		if got := p.place(pattern); got != want {
			t.Errorf("%s is moved to %s, want %s", pattern, got, want)
		}
	}
}

// Verifies which patterns give a file.
func TestGives(t *testing.T) {
	for pattern, want := range map[string]bool{
		"/**": true, "/dev/**": true, "/dev/n*": true, "/dev/null": true, "/d*/**": true, "/dev": false, "/dev/n": false, "/sys/**": false, "/dev/null/**": true,
	} {
		if got := gives([]string{"/other", pattern}, "/dev/null"); got != want {
			t.Errorf("%s: %v", pattern, got)
		}
	}
}

// Verifies the files of patterns, and the directories that must be listed to find them.
func TestMatches(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/x0", "a/x1", "b/x0"} {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	in := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
		return paths
	}
	for pattern, want := range map[string]struct{ files, dirs []string }{
		"/a/x*": {in("a/x0", "a/x1"), in("a")}, "/a/**": {in("a"), nil}, "/*/x0": {in("a/x0", "b/x0"), in("", "a", "b")},
		"/*/**": {in("a", "b"), in("")}, "/c/**": {nil, nil}, "/a/y?": {nil, in("a")},
	} {
		f := find(dir + pattern)
		if diff := cmp.Diff([][]string{want.files, want.dirs}, [][]string{f.files, f.dirs}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pattern, diff)
		}
	}
	if f := find("/**"); len(f.files) != 1 || f.files[0] != "/" {
		t.Errorf("the root is %q", f.files)
	}
}

// Verifies that no pattern, no link and no manifest gives a block device, and that its exact path in the configuration does.
func TestBlockDevices(t *testing.T) {
	dir := t.TempDir()
	for name, kind := range map[string]uint32{"acme0": unix.S_IFBLK, "acme1": unix.S_IFCHR} {
		if err := unix.Mknod(filepath.Join(dir, name), kind|0o600, int(unix.Mkdev(7, 300))); errors.Is(err, unix.EPERM) {
			host.Lacks(t, "mknod is not allowed here: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	must(t, os.Symlink("acme0", filepath.Join(dir, "link")))
	all := Needs{Open: []string{dir + "/acme*", dir + "/acme0", dir + "/link", dir + "/l*", dir + "/acme[0]"}}
	accepted, _ := Policy{AcceptDeclared: true}.Give(all)
	if files := accepted.expand()[dir+"/acme0"].files; len(files) > 0 {
		t.Errorf("a manifest gives %q", files)
	}
	given, _ := Policy{AcceptDeclared: true, Allowed: all}.Give(all)
	for pattern, want := range map[string][]string{"/acme*": {"/acme1"}, "/acme0": {"/acme0"}, "/link": nil, "/l*": nil, "/acme[0]": nil} {
		var got []string
		for _, file := range given.expand()[dir+pattern].files {
			got = append(got, strings.TrimPrefix(file, dir))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pattern, diff)
		}
	}
}

// Verifies that a process which the kernel killed for the lack of memory is recognised by its cgroup.
func TestOutOfMemory(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]bool{"": false, "oom 1\noom_kill 0\noom_group_kill 1\n": false, "low 0\noom_kill 2\noom_group_kill 0\n": true} {
		must(t, os.WriteFile(filepath.Join(dir, "memory.events"), []byte(text), 0o600))
		if got := OutOfMemory(dir); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
