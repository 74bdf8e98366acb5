package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/host"
)

// attemptEnv makes the test binary a program that makes attempts, and prints their errors by name.
const attemptEnv = "SANDBOX_ATTEMPT"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(attemptEnv); ok {
		_ = json.NewEncoder(os.Stdout).Encode(attempts(dir))
		return
	}
	os.Exit(m.Run())
}

// attempts are calls of a program, with their errors: "" if it succeeded. dir has the files given and
// other.
func attempts(dir string) map[string]string {
	results := map[string]string{}
	try := func(name string, err error) {
		var errno syscall.Errno
		switch results[name] = ""; {
		case errors.As(err, &errno):
			results[name] = unix.ErrnoName(errno)
		case err != nil:
			results[name] = err.Error()
		}
	}
	read := func(path string) error { _, err := os.ReadFile(path); return err }
	socket := func(family, kind, protocol int) error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	try("read given", read(filepath.Join(dir, "given/file")))
	try("read other", read(filepath.Join(dir, "other/file")))
	try("write given", os.WriteFile(filepath.Join(dir, "given/new"), nil, 0o600))
	try("write writable", os.WriteFile(filepath.Join(dir, "writable/new"), nil, 0o600))
	try("read libraries", read("/etc/ld.so.cache"))
	list := func(path string) error { _, err := os.ReadDir(path); return err }
	try("list listed", errors.Join(list(filepath.Join(dir, "listed")), list(filepath.Join(dir, "listed/below"))))
	try("read listed", read(filepath.Join(dir, "listed/file")))
	try("write listed", os.WriteFile(filepath.Join(dir, "listed/new"), nil, 0o600))
	try("list root", func() error { _, err := os.ReadDir("/"); return err }())
	try("signal parent", unix.Kill(os.Getppid(), 0))
	try("read parent's memory", read(fmt.Sprintf("/proc/%d/environ", os.Getppid())))
	try("inet", socket(unix.AF_INET, unix.SOCK_STREAM, 0))
	try("packet", socket(unix.AF_PACKET, unix.SOCK_RAW, 0))
	try("unix", socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	try("uevents", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT))
	try("namespace", unix.Unshare(unix.CLONE_NEWUSER))
	try("mount", func() error {
		if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			return err
		}
		return unix.Unmount(dir, 0)
	}())
	try("ioctl", func() error {
		file, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err == nil {
			_, err = unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
			_ = file.Close()
		}
		return err
	}())
	try("nice", unix.Setpriority(unix.PRIO_PROCESS, 0, -20))
	try("execute", exec.Command("/bin/true").Run())
	try("open node", func() error {
		file, err := os.OpenFile(filepath.Join(dir, "given/node"), os.O_RDWR, 0)
		_ = file.Close()
		return err
	}())
	results["user"] = strconv.Itoa(os.Getuid())
	groups, err := os.Getgroups()
	try("groups", err)
	for _, gid := range groups {
		results["groups"] += strconv.Itoa(gid)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	try("descriptors", err)
	for _, entry := range entries {
		to, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err == nil && !strings.HasPrefix(to, "/proc/") && !strings.HasPrefix(to, "anon_inode:") {
			kind, _, _ := strings.Cut(filepath.Base(to), ":")
			results["descriptor "+entry.Name()] = kind
		}
	}
	return results
}

// start starts the program of attempts in the sandbox, and returns what it printed.
func start(t *testing.T, s Sandbox, change func(*exec.Cmd)) (map[string]string, Report, error) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args, cmd.Dir = []string{"attempts"}, "/"
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), attemptEnv+"="+filepath.Dir(s.Dir))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if change != nil {
		change(cmd)
	}
	started, err := s.Prepare(cmd)
	must(t, err)
	must(t, cmd.Start())
	report, err := started.Wait()
	wait := cmd.Wait()
	if err != nil {
		return nil, report, err
	}
	results := map[string]string{}
	if err := json.Unmarshal(out.Bytes(), &results); err != nil {
		t.Fatalf("the program printed %q and %q: %v, %v", &out, &errs, err, wait)
	}
	return results, report, nil
}

// tree is a directory with the files of attempts.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"given", "listed", "listed/below", "other", "writable", "own"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name, "file"), nil, 0o644))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const testUser = 61999

const noCgroup = "this test makes no cgroup"

// lacksRights skips a test of measures for which the agent needs rights.
func lacksRights(t *testing.T) {
	t.Helper()
	if have, err := permitted(); err != nil || userRights&^have != 0 || have&(1<<unix.CAP_SYS_ADMIN) == 0 {
		host.Lacks(t, "another user and namespaces need root's capabilities: %v", err)
	}
}

// measure returns one of a report.
func measure(t *testing.T, r Report, name string) Measure {
	t.Helper()
	i := slices.IndexFunc(r.Measures, func(m Measure) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no measure %s in %+v", name, r)
	}
	return r.Measures[i]
}

// sandboxAt gives what attempts need, in the tree.
func sandboxAt(dir string) Sandbox {
	return Sandbox{UID: testUser, Own: dir, Dir: dir + "/own", NoCgroup: noCgroup, Given: Needs{Read: []string{dir + "/given/**", "/proc/**"}, List: []string{dir + "/listed/**"}, Write: []string{dir + "/writable/**"}}}
}

// Verifies which calls of a program fail in its sandbox, and that the report agrees.
func TestSandbox(t *testing.T) {
	lacksRights(t)
	s := sandboxAt(tree(t))
	defer syscall.Umask(syscall.Umask(0o077)) // as that of a service
	got, report, err := start(t, s, nil)
	must(t, err)
	want := map[string]string{
		"user": strconv.Itoa(testUser), "read given": "", "read other": "ENOENT", "list listed": "", "read listed": "EACCES", "write listed": "EACCES", "write given": "EACCES", "write writable": "", "read libraries": "", "list root": "EACCES",
		"signal parent": "EPERM", "read parent's memory": "EACCES", "inet": "EPERM", "packet": "EPERM", "unix": "", "uevents": "",
		"namespace": "EPERM", "mount": "EPERM", "ioctl": "EACCES", "nice": "EPERM", "execute": "", "groups": "", "open node": "ENOENT",
		"descriptors": "", "descriptor 0": "null", "descriptor 1": "pipe", "descriptor 2": "pipe",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors of calls (-want +got):\n%s", diff)
	}
	if missing := report.Missing(); len(missing) != 1 || missing[0] != (Measure{Name: Cgroup, Detail: noCgroup}) {
		t.Errorf("not in force: %+v", missing)
	}
}

// Verifies that a program keeps the capabilities and calls that it was given, and no others.
func TestGiven(t *testing.T) {
	s := sandboxAt(tree(t))
	s.Given.Capabilities, s.Given.SystemCalls = []string{"CAP_SYS_NICE"}, []string{"@resources"}
	got, report, err := start(t, s, nil)
	must(t, err)
	if got["nice"] != "" || got["mount"] != "EPERM" {
		t.Errorf("nice %s, mount %s", got["nice"], got["mount"])
	}
	if m := measure(t, report, Capabilities); !m.InForce || m.Detail != "CAP_SYS_NICE" {
		t.Errorf("capabilities: %+v", m)
	}
}

// Verifies that a directory that the program writes to is made where the one above it is there, and only there: a
// process can write to no directory that appears later.
func TestMissingDirectories(t *testing.T) {
	lacksRights(t)
	dir := tree(t)
	must(t, os.RemoveAll(dir+"/writable"))
	s := sandboxAt(dir)
	s.Own = t.TempDir()
	s.Given.Write = append(s.Given.Write, dir+"/absent/below/**")
	defer syscall.Umask(syscall.Umask(0o077)) // as that of a service
	got, _, err := start(t, s, nil)
	must(t, err)
	if got["user"] != strconv.Itoa(testUser) || got["write writable"] != "" {
		t.Errorf("as the user %s: %s", got["user"], got["write writable"])
	}
	if info, err := os.Stat(dir + "/writable"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Stat(dir + "/absent"); !os.IsNotExist(err) {
		t.Errorf("a directory was made without the one above it: %v", err)
	}
}

// Verifies that the directory above is opened only for a backend with a user of its own: in a container of its own
// that directory is read-only.
func TestOwnDirectories(t *testing.T) {
	for name, tc := range map[string]struct {
		Sandbox
		mode os.FileMode
	}{
		"a user of its own":      {Sandbox{UID: testUser}, 0o711},
		"a container of its own": {Sandbox{UID: testUser, Container: true}, 0o700},
		"the agent's user":       {Sandbox{}, 0o700},
	} {
		s := tc.Sandbox
		s.Own = t.TempDir()
		must(t, os.Chmod(s.Own, 0o700))
		s.Given.Write = []string{s.Own + "/acme/**"}
		dirs, err := s.makeOwn()
		must(t, err)
		info, err := os.Stat(s.Own)
		must(t, err)
		if len(dirs) != 1 || info.Mode().Perm() != tc.mode {
			t.Errorf("%s: %q is made below %v, want that %v", name, dirs, info.Mode(), tc.mode)
		}
	}
}

// Verifies that a program stays root if another user could not open what it needs, with the reason; and
// that its own directory is its user's again after that. A directory below a listed one may be closed to it.
func TestUser(t *testing.T) {
	lacksRights(t)
	dir := tree(t)
	must(t, os.Chmod(filepath.Join(dir, "listed/below"), 0o700))
	s := sandboxAt(dir)
	s.Given.Read = append(s.Given.Read, dir+"/other/**")
	for _, modes := range []struct {
		dir, file os.FileMode
		closed    string
	}{{0o700, 0o644, "other"}, {0o711, 0o644, "other"}, {0o755, 0o600, "other/file"}} {
		must(t, os.Chmod(filepath.Join(dir, "other"), modes.dir))
		must(t, os.Chmod(filepath.Join(dir, "other/file"), modes.file))
		got, report, err := start(t, s, nil)
		must(t, err)
		want := Measure{Name: User, Detail: fmt.Sprintf("user 0, the agent's: user %d may not open %s/%s, which it needs (permission denied)", testUser, dir, modes.closed)}
		if m := measure(t, report, User); m != want || got["user"] != "0" || got["read other"] != "" || got["write writable"] != "" {
			t.Errorf("%+v, want %+v; %v", m, want, got)
		}
	}
	must(t, os.Chmod(filepath.Join(dir, "other/file"), 0o644))
	closed, err := os.MkdirTemp("/var/cache", "closed") // which is not hidden, as /tmp is
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(closed) })
	must(t, os.Mkdir(filepath.Join(closed, "open"), 0o755))
	s.Given.Read[len(s.Given.Read)-1] = closed + "/open/**"
	if _, report, err := start(t, s, nil); err != nil || measure(t, report, User).InForce {
		t.Errorf("below a closed directory: %+v, %v", measure(t, report, User), err)
	}
	s.Given.Read[len(s.Given.Read)-1] = dir + "/other/file"
	got, report, err := start(t, s, nil)
	must(t, err)
	if m := measure(t, report, User); !m.InForce || got["user"] != strconv.Itoa(testUser) || got["read other"] != "" || got["write writable"] != "" {
		t.Errorf("%+v, %v", m, got)
	}
}

// Verifies that links in a directory that a program may write give it nothing, whatever patterns match them.
func TestLinks(t *testing.T) {
	dir := tree(t)
	must(t, os.Symlink(dir+"/other", dir+"/writable/link"))
	s := sandboxAt(dir)
	s.Container = true // nothing is hidden
	s.Given.Read = append(s.Given.Read, dir+"/writable/l*", dir+"/writable/link/**", dir+"/writable/*/file")
	got, _, err := start(t, s, nil)
	if must(t, err); got["read other"] != "EACCES" || got["write writable"] != "" {
		t.Errorf("a file that a link leads to: %s; %v", got["read other"], got)
	}
	must(t, os.Mkdir(dir+"/writable/in", 0o755))
	must(t, os.Rename(dir+"/writable/link", dir+"/writable/in/link"))
	must(t, chown(testUser, dir+"/writable"))
	var info unix.Stat_t
	if must(t, unix.Stat(dir+"/other/file", &info)); info.Uid == testUser {
		t.Error("what a link leads to has a new owner")
	}
}

// Verifies that a program is in the group of a device node that its group may open.
func TestGroups(t *testing.T) {
	lacksRights(t)
	s := sandboxAt(tree(t))
	node := filepath.Join(filepath.Dir(s.Dir), "given/node")
	must(t, unix.Mknod(node, unix.S_IFCHR|0o660, int(unix.Mkdev(1, 3)))) //nolint:gosec // /dev/null's
	must(t, os.Chmod(node, 0o660))
	must(t, os.Chown(node, 0, 60001))
	s.Given.Open = []string{node}
	got, report, err := start(t, s, nil)
	if must(t, err); got["groups"] != "60001" || got["open node"] != "" {
		t.Errorf("groups %s, open %s, %+v", got["groups"], got["open node"], report)
	}
}

// Verifies that in the mode required a missing measure is an error that names it, and the program does not
// run.
func TestRequired(t *testing.T) {
	s := sandboxAt(tree(t))
	s.Policy.Mode = Required
	_, _, err := start(t, s, nil)
	if err == nil || !strings.Contains(err.Error(), "sandbox.mode: required") || !strings.Contains(err.Error(), "cgroup (this test makes no cgroup)") {
		t.Errorf("error %v", err)
	}
}

// Verifies that nothing is in force with the mode off, and that nothing is reported.
func TestOff(t *testing.T) {
	s := sandboxAt(tree(t))
	s.Policy.Mode = Off
	got, report, err := start(t, s, nil)
	must(t, err)
	if got["list root"] != "" || got["inet"] != "" || len(report.Measures) > 0 {
		t.Errorf("%v, %+v", got, report)
	}
}

// Verifies the errors of a program that cannot be executed, and that a pinned program is executed from
// its descriptor, which it gets as its third.
func TestPrograms(t *testing.T) {
	dir := tree(t)
	script := filepath.Join(dir, "script")
	for name, want := range map[string]struct {
		text  string
		errno syscall.Errno
	}{
		"interpreter": {"#!/nonexistent\n", syscall.ENOENT}, "format": {"hello\n", syscall.ENOEXEC}, "missing": {"", syscall.ENOENT},
	} {
		if want.text != "" {
			must(t, os.WriteFile(script, []byte(want.text), 0o700))
		}
		_, _, err := start(t, sandboxAt(dir), func(cmd *exec.Cmd) { cmd.Path = script })
		if !errors.Is(err, want.errno) {
			t.Errorf("%s: %v, want %v", name, err, want.errno)
		}
		must(t, os.RemoveAll(script))
	}
	self, err := os.Executable()
	must(t, err)
	file, err := os.Open(self)
	must(t, err)
	defer func() { _ = file.Close() }()
	got, _, err := start(t, sandboxAt(dir), func(cmd *exec.Cmd) {
		cmd.Path, cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{file}
	})
	if must(t, err); got["descriptor 3"] != filepath.Base(self) || got["descriptor 4"] != "" {
		t.Errorf("descriptors %v", got)
	}
}

// Verifies that a report which is cut off is an error, and that an end without one is not.
func TestRead(t *testing.T) {
	of := func(text string) *json.Decoder { return json.NewDecoder(strings.NewReader(text)) }
	if _, err := read(of(`{"report": {"meas`), false); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a report that is cut off: %v", err)
	}
	if m, err := read(of(""), true); err != nil || len(m.Report.Measures) > 0 {
		t.Errorf("no report: %v, %v", m, err)
	}
}
