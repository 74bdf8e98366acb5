// Command floor is the minimal driver as a program, as the agent is one:
//
//	floor KUBECONFIG NODE KUBELET-DIR CDI-DIR NAME DEVICES
//
// It publishes so many devices, dev-0 and so on, and serves until SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/test/bench/claims/minimal"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 6 {
		return errors.New("6 arguments are needed")
	}
	count, err := strconv.Atoi(args[5])
	if err != nil {
		return err
	}
	client, err := connect(args[0])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	driver, err := minimal.Start(ctx, minimal.Options{Name: args[4], Node: args[1], KubeletDir: args[2], CDIDir: args[3], Client: client})
	if err != nil {
		return err
	}
	defer driver.Stop()
	var devices []resourceapi.Device
	for i := range count {
		devices = append(devices, resourceapi.Device{Name: "dev-" + strconv.Itoa(i)})
	}
	if err := driver.Publish(ctx, devices); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// connect returns a client like the agent's.
func connect(kubeconfig string) (kubernetes.Interface, error) {
	config, err := kubeapi.Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubeapi.Connect(config)
	if err != nil {
		return nil, err
	}
	return client.Clientset(), nil
}
