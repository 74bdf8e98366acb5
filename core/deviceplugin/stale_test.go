package deviceplugin

import (
	"bytes"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/patience"
)

// Verifies that the socket of a process which was dying when this one started goes, too,
// and that one of a process that lives stays.
func TestSocketOfADyingProcessGoes(t *testing.T) {
	n := newNode(t, Timing{Connect: 2 * time.Second, Shutdown: patience.Long}, false)
	n.startKubelet()
	listen := func(name string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(n.kubelet.PluginDir(), name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	dying, living := listen("accelmux-dying-1.sock"), listen("accelmux-living-1.sock")
	dying.SetUnlinkOnClose(false)
	n.run()
	t.Cleanup(func() { _ = living.Close() }) // and with it the file, before run's looks
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	n.waitAllocatable(2)
	n.waitStatus("ours and both others", func(Status) bool { return len(n.sockets()) == 3 })
	_ = dying.Close()
	n.waitStatus("the dead socket to go", func(Status) bool {
		_, err := os.Lstat(filepath.Join(n.kubelet.PluginDir(), "accelmux-dying-1.sock"))
		return err != nil
	})
	n.waitStatus("ours and that of the living", func(Status) bool { return len(n.sockets()) == 2 })
	n.waitAllocatable(2)
}

// Verifies that the socket of a dead process which cannot be removed, as its directory is
// read-only for a while, goes when it can be, however late; and that this is logged once.
func TestStaleSocketGoesWhenItCan(t *testing.T) {
	n := newNode(t, Timing{Connect: 20 * time.Millisecond}, false)
	n.startKubelet()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(n.kubelet.PluginDir(), "accelmux-dead-1.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	var text bytes.Buffer
	n.plugin.log = slog.New(slog.NewTextHandler(&text, nil))
	refusals := 5
	n.plugin.sockets.remove = func(path string) error {
		if refusals--; refusals >= 0 {
			return &fs.PathError{Op: "remove", Path: path, Err: syscall.EROFS}
		}
		return os.Remove(path)
	}
	n.plugin.sweepAgain(t.Context(), n.plugin.sweep(t.Context(), ""))
	if left := n.sockets(); len(left) > 0 || refusals >= 0 {
		t.Errorf("left after %d more refusals: %v", max(refusals, 0), left)
	}
	if told := strings.Count(text.String(), "read-only file system"); told != 1 {
		t.Errorf("told %d times, want once:\n%s", told, text.String())
	}
}
