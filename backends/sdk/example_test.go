package sdk_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// camera lists the cameras of a node.
type camera struct{ dev string }

func (c camera) Describe() sdk.Description {
	return sdk.Description{Name: "video", Vendor: "Any", Version: "1.0.0", Classes: []string{"camera"}}
}

func (c camera) Watch(ctx context.Context, out *sdk.Reporter) error {
	return sdk.Poll(ctx, out, nil, c.list)
}

func (c camera) list(context.Context) ([]*sdk.Device, error) {
	nodes, err := filepath.Glob(filepath.Join(c.dev, "video*"))
	var devices []*sdk.Device
	for _, n := range nodes {
		devices = append(devices, &sdk.Device{
			Id: filepath.Base(n), Class: "camera", Health: sdk.Healthy(),
			Attributes: map[string]*sdk.Attribute{"model": sdk.String("Camera")},
			Edits:      sdk.Nodes(n),
		})
	}
	return devices, err
}

func serve() int { return sdk.Serve(camera{"/dev"}) }

// A whole backend that lists devices. Its main is os.Exit(serve()).
func Example() {
	dev, err := os.MkdirTemp("", "dev")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dev) }()
	if err := os.WriteFile(filepath.Join(dev, "video0"), nil, 0o600); err != nil {
		fmt.Println(err)
		return
	}
	devices, err := camera{dev}.list(context.Background())
	fmt.Println(len(devices), devices[0].GetId(), err)
	// Output: 1 video0 <nil>
}

// A first backend stays short: everything of the one above, main included.
func TestExampleIsShort(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	backend, _, ok := strings.Cut(string(source), "// A whole backend")
	if n := strings.Count(backend, "\n"); !ok || n >= 60 {
		t.Errorf("the backend has %d lines, want fewer than 60", n)
	}
	// Started by hand, it says what it is.
	t.Setenv(backendplugin.CookieKey, "")
	if code := serve(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}
