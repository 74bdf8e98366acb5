package sdk

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// modeVar makes the test binary run as another program: a backend of the mode that the value
// names.
const modeVar = "SDK_TEST_MODE"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(modeVar); mode {
	case "":
		goleak.VerifyTestMain(m)
	default:
		os.Exit(Serve(&child{mode: mode}))
	}
}

// child is a backend in another process.
type child struct{ mode string }

func (c *child) Identity() (name, version string) { return "child", "1.2.3" }

func (c *child) Watch(ctx context.Context, out *Reporter) error {
	switch kind, arg, _ := strings.Cut(c.mode, "="); kind {
	case "devices":
		n, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		out.Publish(manyDevices(n))
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
