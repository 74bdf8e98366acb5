package sdk_test

import (
	"context"
	"os"

	"github.com/accelmux/accelmux/backends/sdk"
)

// cards is a backend with one constant list of cards.
type cards struct{}

func (cards) Identity() (name, version string) { return "acme", "1.0.0" }

func (c cards) Watch(ctx context.Context, out *sdk.Reporter) error {
	return sdk.Poll(ctx, out, nil, c.list)
}

func (cards) list(context.Context) ([]*sdk.Device, error) {
	return []*sdk.Device{{Id: "A-1234", Class: "gpu", Health: sdk.Healthy(), Edits: sdk.Nodes("/dev/acme0")}}, nil
}

// The smallest complete backend. The program in backends/examples/camera lists hardware, and has
// each further ability in a file of its own.
func Example() { os.Exit(sdk.Serve(cards{})) }
