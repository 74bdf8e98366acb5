package sdk

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/proto/backendplugin"
)

// modeVar makes the test binary run as another program: a backend of the mode that the value
// names, or a parent of one.
const modeVar = "SDK_TEST_MODE"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(modeVar); mode {
	case "":
		goleak.VerifyTestMain(m)
	case "parent":
		os.Exit(parent())
	default:
		os.Exit(Serve(&child{mode: mode}))
	}
}

// child is a backend in another process.
type child struct{ mode string }

func (c *child) Describe() Description {
	d := Description{Name: "child", Vendor: "Test", Version: "1.2.3", Classes: []string{"gpu"}}
	if c.mode == "nameless" {
		d.Name = ""
	}
	return d
}

func (c *child) Watch(ctx context.Context, out *Reporter) error {
	switch kind, arg, _ := strings.Cut(c.mode, "="); kind {
	case "devices":
		n, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		out.Publish(manyDevices(n))
	case "noisy": // more than a pipe can buffer, in all ways
		noise := []byte(strings.Repeat("noise\n", 50_000))
		if _, err := unix.Write(1, noise); err != nil {
			return err
		}
		if _, err := os.Stdout.Write(noise); err != nil {
			return err
		}
		out.Publish(manyDevices(1))
	case "panic":
		fmt.Fprintln(os.Stderr, "plain line")
		slog.Warn("a warning", "device", "d0")
		panic("the loop is broken")
	case "stubborn":
		out.Publish(manyDevices(1))
		select {} // ignores its context, as a driver that hangs would
	}
	<-ctx.Done()
	return ctx.Err()
}

func manyDevices(n int) []*Device {
	devices := make([]*Device, 0, n)
	for i := range n {
		d := &Device{
			Id: fmt.Sprintf("device-%d", i), Class: "gpu", Health: Healthy(), Edits: Nodes("/dev/null"),
			Attributes: map[string]*Attribute{},
		}
		for j := range 12 {
			d.Attributes[fmt.Sprintf("attribute_%d", j)] = String(strings.Repeat("x", 50))
		}
		devices = append(devices, d)
	}
	return devices
}

// parent starts a backend and ignores it. The backend inherits file descriptor 3, a pipe by
// which the test detects its end.
func parent() int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), modeVar+"=devices=1",
		backendplugin.CookieKey+"="+backendplugin.CookieValue,
		"PLUGIN_PROTOCOL_VERSIONS=1")
	alive := os.NewFile(3, "alive")
	cmd.ExtraFiles = []*os.File{alive}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1
	}
	if err := cmd.Start(); err != nil {
		return 1
	}
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil {
		return 1
	}
	if _, err := alive.Write(line[:n]); err != nil {
		return 1
	}
	// Runs until the test closes its standard input, or kills it.
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
