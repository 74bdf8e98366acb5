package machine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/kernel/wire"
	"github.com/accelmux/accelmux/test/patience"
)

const (
	// Limit bounds a wait for what the guest does on its own, which takes seconds on an idle machine of two cores.
	Limit = 2 * time.Minute
	// callLimit bounds a call to the guest, and a boot, which takes 16 to 30 s.
	callLimit = 10 * time.Minute
)

// guest calls the program in the machine, over a virtio port.
type guest struct {
	machine *Machine
	client  *rpc.Client
	boot    string
}

// connect waits for a life of the machine other than the one before.
func (g *guest) connect(before string) error {
	for limit := patience.NewLimit(callLimit); ; {
		if g.client != nil {
			_ = g.client.Close()
		}
		conn, err := g.machine.dial("guest")
		if err != nil {
			return err
		}
		g.client = jsonrpc.NewClient(conn)
		var boot wire.Boot
		// A call that is lost in a reboot is never answered.
		err = g.within(10*time.Second, "Guest.Boot", struct{}{}, &boot)
		if err == nil && boot.ID != before {
			g.boot = boot.ID
			return nil
		}
		if g.machine.over() || limit.Over() {
			return errors.Join(errors.New("the guest does not answer"), err)
		}
	}
}

func (g *guest) within(limit time.Duration, method string, args, reply any) error {
	call := g.client.Go(method, args, reply, make(chan *rpc.Call, 1))
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case <-call.Done:
		return call.Error
	case <-g.machine.ended:
		return fmt.Errorf("%s: QEMU has ended", method)
	case <-over.C:
		return fmt.Errorf("%s: no answer within %s", method, limit)
	}
}

func (g *guest) call(tb testing.TB, method string, args, reply any) {
	tb.Helper()
	if err := g.within(callLimit, method, args, reply); err != nil {
		tb.Fatalf("%v\n%s", err, g.machine.Console())
	}
}

// Update gives the machine the programs of a directory, and what lies beside them, that differ from those installed, and
// starts the agent again if one does: for a machine that was kept.
func (m *Machine) Update(bin string) error {
	var installed wire.Output
	if err := m.guest.within(callLimit, "Guest.Run", "find /usr/bin/accelmux /usr/libexec/accelmux -type f -exec sha256sum {} +", &installed); err != nil {
		return err
	}
	restart := ""
	for line := range strings.Lines(installed.Text) {
		sum, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		name := strings.TrimPrefix(strings.TrimPrefix(path, "/usr/bin/"), "/usr/libexec/accelmux/")
		data, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			return fmt.Errorf("update %s in the machine: %w", path, err)
		}
		if fmt.Sprintf("%x", sha256.Sum256(data)) == sum {
			continue
		}
		fmt.Printf("%s is replaced in the machine\n", path)
		if err := m.guest.within(callLimit, "Guest.Replace", wire.Program{Path: path, Data: data}, &struct{}{}); err != nil {
			return err
		}
		restart = "systemctl restart accelmux"
	}
	return m.guest.within(callLimit, "Guest.Run", restart, &wire.Output{})
}

// Try runs a command of the shell in the machine, as root.
func (m *Machine) Try(tb testing.TB, format string, args ...any) wire.Output {
	tb.Helper()
	var out wire.Output
	m.guest.call(tb, "Guest.Run", fmt.Sprintf(format, args...), &out)
	return out
}

// Run is Try for a command that must succeed. It returns what the command printed, without the last line's end.
func (m *Machine) Run(tb testing.TB, format string, args ...any) string {
	tb.Helper()
	out := m.Try(tb, format, args...)
	if out.Status != 0 {
		tb.Fatalf("in the machine, status %d:\n%s\n%s", out.Status, fmt.Sprintf(format, args...), out.Text)
	}
	return strings.TrimSuffix(out.Text, "\n")
}

// Write writes a file in the machine.
func (m *Machine) Write(tb testing.TB, path, text string) {
	tb.Helper()
	m.Run(tb, "mkdir -p \"$(dirname %[1]s)\" && cat >%[1]s.new <<'END' && mv %[1]s.new %[1]s\n%[2]s\nEND", path, text)
}

// Devices returns what the stand-in kubelet has of a resource, sorted by ID.
func (m *Machine) Devices(tb testing.TB, resource string) []kubelettest.Device {
	tb.Helper()
	var devices []kubelettest.Device
	m.guest.call(tb, "Guest.Devices", resource, &devices)
	return devices
}

// Changes returns the kernel's events and kubelet's lists after the first ones of this life of the machine.
func (m *Machine) Changes(tb testing.TB, since int) []wire.Change {
	tb.Helper()
	var changes []wire.Change
	m.guest.call(tb, "Guest.Changes", since, &changes)
	return changes
}

// Allocate admits a pod that wants devices of a resource, as kubelet does.
func (m *Machine) Allocate(tb testing.TB, pod, resource string, count int) (wire.Allocation, error) {
	tb.Helper()
	var got wire.Allocation
	err := m.guest.within(callLimit, "Guest.Allocate", wire.Request{Pod: pod, Resource: resource, Count: count}, &got)
	return got, err
}

// Free ends a pod for kubelet.
func (m *Machine) Free(tb testing.TB, pod string) {
	tb.Helper()
	m.guest.call(tb, "Guest.Free", pod, &struct{}{})
}

// Start starts a container with what an allocation gave; it sleeps. Runc makes its cgroup, and the filter of its
// devices.
func (m *Machine) Start(tb testing.TB, name string, got wire.Allocation) {
	tb.Helper()
	m.guest.call(tb, "Guest.Bundle", wire.Container{Name: name, Settings: got.Settings}, &struct{}{})
	m.Run(tb, "runc run --detach --bundle %s %s </dev/null >/run/containers/%s/log 2>&1 || { cat /run/containers/%[2]s/log; false; }", wire.Directory(name), name, name)
}

// End ends a container, if it is there.
func (m *Machine) End(tb testing.TB, name string) {
	tb.Helper()
	m.Try(tb, "runc delete --force %s", name)
}
