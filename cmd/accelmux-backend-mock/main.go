// Command accelmux-backend-mock is a backend whose devices exist only in its
// settings. See package mock.
package main

import (
	"os"

	"github.com/accelmux/accelmux/backends/mock"
	"github.com/accelmux/accelmux/backends/sdk"
)

func main() { os.Exit(sdk.Serve(mock.New(os.Exit))) }
