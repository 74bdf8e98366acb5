// Command guest runs in the machine of test/kernel as kubelet.service: it is the stand-in kubelet, runs commands for the
// tests, and writes the bundles from which runc starts containers with what kubelet's plugin answered.
//
// In such a container it is "guest open NODE...": it opens nodes as a program would, and reports those that cannot be.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/kernel/wire"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "open" {
		if err := open(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	server, err := newServer()
	if err != nil {
		slog.Error("start the stand-in kubelet", "error", err)
		os.Exit(1)
	}
	serve(server)
}

// open opens nodes for reading and writing. A terminal does not wait for a carrier.
func open(nodes []string) error {
	var failed error
	for _, node := range nodes {
		fd, err := unix.Open(node, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("open %s: %w", node, err))
			continue
		}
		failed = errors.Join(failed, unix.Close(fd))
	}
	return failed
}

// newServer starts the stand-in kubelet, and returns what answers the tests.
func newServer() (*rpc.Server, error) {
	g, err := newGuest()
	if err != nil {
		return nil, err
	}
	server := rpc.NewServer()
	if err := server.RegisterName("Guest", g); err != nil {
		return nil, fmt.Errorf("register the methods: %w", err)
	}
	return server, nil
}

// serve answers the tests for ever. The port comes when udev has seen it, and reads as ended while nothing is connected
// to it outside.
func serve(server *rpc.Server) {
	for {
		if port, err := os.OpenFile("/dev/virtio-ports/"+wire.Port, os.O_RDWR, 0); err == nil {
			server.ServeCodec(jsonrpc.NewServerCodec(port))
		}
		<-time.After(100 * time.Millisecond)
	}
}
