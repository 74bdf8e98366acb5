package main

import (
	"flag"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/accelmux/accelmux/test/kubelet/manager/wire"
)

func main() {
	klog.InitFlags(nil) // to standard error
	cluster := flag.Bool("cluster", false, "be the API server, not kubelet: print the address, and serve until the input ends")
	about := flag.Bool("release", false, "print the release of kubelet, and do nothing else")
	flag.Parse()
	if *about {
		fmt.Println(release())
		return
	}
	if *cluster {
		if err := serveCluster(os.Stdin, os.Stdout); err != nil {
			klog.Background().Error(err, "Serve the cluster")
			os.Exit(1)
		}
		return
	}
	k := &kubelet{log: klog.Background()}
	server := rpc.NewServer()
	if err := server.RegisterName(wire.Service, service{k}); err != nil {
		k.log.Error(err, "Serve")
		os.Exit(1)
	}
	out := os.Stdout
	os.Stdout = os.Stderr // for whatever else is in this program
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		k.end()
	}()
	server.ServeCodec(jsonrpc.NewServerCodec(stdio{Reader: input{os.Stdin, k.end}, Writer: out}))
}

// release is that of the kubelet in this program.
func release() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "k8s.io/kubernetes" {
				return m.Version
			}
		}
	}
	return "unknown"
}

// stdio is the connection to whoever started the program.
type stdio struct {
	io.Reader
	io.Writer
}

func (stdio) Close() error { return nil }

// input calls ended when nobody is there any more, also while requests are served.
type input struct {
	io.Reader
	ended func()
}

func (in input) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	if err != nil {
		in.ended()
	}
	return n, err
}
