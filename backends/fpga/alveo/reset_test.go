package alveo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// withoutTool has no tool in its root.
func withoutTool(t *testing.T, tree *fpgatree.Tree) *Driver {
	t.Helper()
	return newDriver(tree, Settings{Root: t.TempDir()})
}

// Without a tool xocl resets the card, on a node as in a virtual machine, and it is back
// with nothing loaded when Reset returns.
func TestHotReset(t *testing.T) {
	for name, alone := range map[string]bool{"node": false, "virtual machine": true} {
		m := fpgatree.NewAlveo(fpgatree.U250)
		m.Alveos[0].Xclbin, m.Alveos[0].UserOnly = loaded, alone
		tree := fpgatest.Tree(t, m)
		d := withoutTool(t, tree)
		before := one(t, d)
		var written []string
		d.write = func(path, text string) error {
			written = append(written, strings.TrimSpace(text))
			return tree.WriteShutdown(path, text)
		}
		resets := 0
		tree.InReset = func() {
			resets++
			if c := one(t, d); c.ID != before.ID || c.Regions[0].State != driver.Busy {
				t.Errorf("%s: during the reset it is %+v", name, c)
			}
		}
		done, err := d.Reset(t.Context(), before, before.Regions[0])
		if err != nil || !strings.HasPrefix(done, "hot reset of 0000:65:00.") || strings.Join(written, " ") != "1 0" || resets != 1 {
			t.Errorf("%s: %q, %v; %q was written, and there were %d resets", name, done, err, written, resets)
		}
		if r := one(t, d).Regions[0]; r.State != driver.Unloaded {
			t.Errorf("%s: afterwards it is %+v", name, r)
		}
	}
}

// A reset that does not end in time leaves the card shut down, and reports that; the next one
// starts it. A card that another process has shut down is not changed.
func TestResetAbandoned(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	d := withoutTool(t, tree)
	before := one(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	d.write = func(string, string) error {
		cancel()
		return errors.Join(tree.BeginReset(0), tree.SetAlveo(0, fpgatree.User, "shutdown", "1\n"))
	}
	if done, err := d.Reset(ctx, before, before.Regions[0]); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "stays shut down until the next reset") {
		t.Errorf("abandoned: %q, %v", done, err)
	}
	fault := func() driver.Fault {
		t.Helper()
		c := one(t, d)
		if len(c.Faults) != 1 || c.Regions[0].State != driver.Busy {
			t.Fatalf("it is %+v", c)
		}
		return c.Faults[0]
	}
	if f := fault(); f.Code != CardShutdown || f.Recovery != sdk.RecoveryReset || !strings.Contains(f.Text, "the next one brings it back") {
		t.Errorf("its fault is %+v", f)
	}
	fpgatest.OK(t, tree.SetAlveo(0, fpgatree.Management, "dev_offline", "0\n"))
	d.write = tree.WriteShutdown
	if _, err := d.Reset(t.Context(), before, before.Regions[0]); err != nil {
		t.Fatal(err)
	}
	if c := one(t, d); len(c.Faults) != 0 {
		t.Errorf("afterwards it is %+v", c)
	}
	fpgatest.OK(t, tree.SetAlveo(0, fpgatree.User, "shutdown", "1\n"))
	if f := fault(); f.Code != CardShutdown || f.Recovery != sdk.RecoverySelf || !strings.Contains(f.Text, "administrator") {
		t.Errorf("its fault is %+v", f)
	}
	d.write = func(string, string) error { t.Error("it was written to"); return nil }
	if done, err := d.Reset(t.Context(), before, before.Regions[0]); err == nil || !strings.Contains(err.Error(), "another process has shut it down") {
		t.Errorf("shut down by another process: %q, %v", done, err)
	}
}

// Errors of a reset.
func TestResetFails(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	d := withoutTool(t, tree)
	c := one(t, d)
	refused := func(name, want string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		write := d.write
		d.write = func(path, text string) error {
			cancel()
			return write(path, text)
		}
		done, err := d.Reset(ctx, c, c.Regions[0])
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), c.ID) {
			t.Errorf("%s: %q, %v, want %q", name, done, err, want)
		}
	}
	d.write = func(string, string) error { return &fs.PathError{Op: "write", Path: "shutdown", Err: unix.EACCES} }
	refused("not allowed", "permission denied")
	d.write = func(path, text string) error {
		if text == online {
			return nil
		}
		return tree.WriteShutdown(path, text)
	}
	refused("never back", "shutdown shows that it is offline")
	d.settings.Tool = "/no/such/xbutil"
	fpgatest.OK(t, tree.EndReset(0))
	refused("no tool", "no executable file /no/such/xbutil")
	d.settings.Tool = ""
	fpgatest.OK(t, tree.SpoilAlveo(0, fpgatree.User, "drm", os.RemoveAll))
	refused("no user function", "no user function here")
	fpgatest.OK(t, tree.UnplugAlveo(0))
	refused("unplugged", "is not there any more")
}

// The tool does the reset where it is installed, and Reset waits for the card.
func TestResetByTool(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	fpgatest.OK(t, tree.TripFirewall(0, 1, "ep_firewall_ctrl_user_00", 1<<19, 1))
	fifo := filepath.Join(t.TempDir(), "calls")
	fpgatest.OK(t, unix.Mkfifo(fifo, 0o600))
	d := xbutil(t, tree, `echo "$*" > `+fifo)
	d.write = func(string, string) error { t.Error("xocl was reset"); return nil }
	c := one(t, d)
	if len(c.Faults) != 1 || c.Faults[0].Code != FirewallTripped {
		t.Fatalf("it has %+v", c.Faults)
	}
	result := make(chan error, 1)
	go func() {
		done, err := d.Reset(t.Context(), c, c.Regions[0])
		if err == nil && done != "xbutil reset --device 0000:65:00.1 --force: (nothing)" {
			err = errors.New(done)
		}
		result <- err
	}()
	call, err := os.ReadFile(fifo)
	if err != nil || string(call) != "reset --device 0000:65:00.1 --force\n" {
		t.Fatalf("it was called with %q, %v", call, err)
	}
	fpgatest.OK(t, tree.BeginReset(0))
	fpgatest.OK(t, tree.TripFirewall(0, 0, "", 0, 0, fpgatree.Management))
	fpgatest.OK(t, tree.EndReset(0))
	if err := <-result; err != nil {
		t.Error(err)
	}
	if c := one(t, d); len(c.Faults) != 0 {
		t.Errorf("afterwards it has %+v", c.Faults)
	}
	d = xbutil(t, tree, `echo "ERROR: Device is busy"; exit 1`)
	if _, err := d.Reset(t.Context(), c, c.Regions[0]); err == nil || !strings.Contains(err.Error(), "ERROR: Device is busy") {
		t.Errorf("a tool that fails: %v", err)
	}
}
