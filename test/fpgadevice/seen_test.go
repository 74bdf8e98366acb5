package fpgadevice

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/host"
)

// elsewhere has a wrapped command see the tree in a directory, as in a container, with
// this option of the mount.
func elsewhere(t *testing.T, tree *fpgatree.Tree, d *Device, cmd *exec.Cmd, option string) {
	t.Helper()
	seen := t.TempDir()
	for i, arg := range cmd.Args {
		if rest, ok := strings.CutPrefix(arg, tree.Root+"/"); ok {
			cmd.Args[i] = filepath.Join(seen, rest)
		}
	}
	const script = `mount --bind "$1" "$2" && mount -o remount,bind,"$3" "$2" && shift 3 && exec "$@"`
	cmd.Args = append([]string{"sh", "-c", script, "sh", tree.Root, seen, option}, cmd.Args...)
	cmd.Path = "/bin/sh"
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	d.SeenAt(seen + "/")
	if err := d.Wrap(cmd); err != nil {
		t.Fatal(err)
	}
}

// Verifies that a program in another mount namespace, to which the tree is elsewhere,
// meets the same cards; and that it can write only what it may write there.
func TestSeenElsewhere(t *testing.T) {
	if os.Geteuid() != 0 {
		host.Lacks(t, "to mount something one must be root")
	}
	w := newWrapped(t, 1<<20)
	cmd := w.command(w.self())
	elsewhere(t, w.tree, w.device, cmd, "rw")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.wantProgrammed(cmd.Process.Pid)
	for option, want := range map[string]string{"ro": "read-only file system", "rw": `errors: "0x0\n"`} {
		port, _ := registers(t, w.tree)
		cmd := exec.CommandContext(t.Context(), w.self(), "0x2\n", filepath.Join(port, "errors"))
		cmd.Env = append(os.Environ(), childEnv+"=write")
		elsewhere(t, w.tree, w.device, cmd, option)
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%s: it said %s, want %q", option, out, want)
		}
	}
}
