package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Verifies that the packages that the real node needs are asked for also where another program has
// the name: BusyBox for those of util-linux and iproute2, or a busybox that needs libraries.
func TestAnotherProgramOfTheName(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		Lacks(t, "no busybox: install busybox-static")
	}
	for name, c := range map[string]struct{ program, wanted string }{
		"unshare": {busybox, "util-linux"}, "setpriv": {busybox, "util-linux"}, "ip": {busybox, "iproute2"},
		"busybox": {"/bin/sh", "busybox-static"}, // it needs libraries
	} {
		dir := t.TempDir()
		if err := os.Symlink(c.program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), "./missing.sh", "../node/packages.txt")
		command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := command.Output()
		if err != nil || !strings.Contains("\n"+string(out), "\n"+c.wanted+"\n") {
			t.Errorf("with %s as %s the machine lacks %q, %v; want %s", c.program, name, out, err, c.wanted)
		}
	}
}
