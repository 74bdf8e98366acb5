// Command bench measures what kubelet's calls cost with accelmux, as ratios to
// the floor of the same run: a bare gRPC server with the same API, answering a
// constant from memory, in a process of its own on a unix socket. Rounds of both
// are interleaved; medians are printed.
//
//	go run ./test/bench -bin bin
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func main() {
	bin := flag.String("bin", "bin", "`dir`ectory of the built programs")
	rounds := flag.Int("rounds", 15, "interleaved rounds of each side")
	calls := flag.Int("calls", 1000, "calls in a round")
	floor := flag.String("floor", "", "serve the floor on this `socket` (the program starts itself so)")
	flag.Parse()
	var err error
	if *floor != "" {
		err = serveFloor(*floor)
	} else {
		err = measure(*bin, *rounds, *calls)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// devices is how many devices the agent serves in each run.
var devices = []int{8, 1000}

func measure(bin string, rounds, calls int) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	for _, count := range devices {
		if err := measureOne(bin, count, rounds, calls); err != nil {
			return fmt.Errorf("%d devices: %w", count, err)
		}
	}
	return nil
}

func measureOne(bin string, count, rounds, calls int) (err error) {
	node, err := startNode(bin, count)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.stop()) }()
	agent, err := dial(node.socket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Close()) }()
	floor, err := dial(node.floorSocket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.Close()) }()

	fmt.Printf("%d devices\n", count)
	fmt.Printf("  %-28s %12s %12s %8s\n", "", "accelmux", "floor", "ratio")
	ids := node.ids
	for _, c := range []struct {
		name string
		call func(context.Context, pluginapi.DevicePluginClient) error
	}{
		{"Allocate, 1 device", allocate(ids[:1])},
		{"Allocate, 8 devices", allocate(ids[:8])},
		{"GetPreferredAllocation 4 of n", prefer(ids, 4)},
	} {
		ours, bare, err := race(pluginapi.NewDevicePluginClient(agent), pluginapi.NewDevicePluginClient(floor), c.call, rounds, calls)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("  %-28s %12v %12v %8.2f\n", c.name, ours, bare, float64(ours)/float64(bare))
	}
	return node.printMemory()
}

func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func allocate(ids []string) func(context.Context, pluginapi.DevicePluginClient) error {
	request := &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}}
	return func(ctx context.Context, client pluginapi.DevicePluginClient) error {
		_, err := client.Allocate(ctx, request)
		return err
	}
}

func prefer(ids []string, size int32) func(context.Context, pluginapi.DevicePluginClient) error {
	request := &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: ids, AllocationSize: size},
	}}
	return func(ctx context.Context, client pluginapi.DevicePluginClient) error {
		_, err := client.GetPreferredAllocation(ctx, request)
		return err
	}
}

// race returns the median time of a call on each side.
func race(a, b pluginapi.DevicePluginClient, call func(context.Context, pluginapi.DevicePluginClient) error, rounds, calls int) (medianA, medianB time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var timesA, timesB []time.Duration
	for round := range rounds + 1 {
		for _, side := range []struct {
			client pluginapi.DevicePluginClient
			times  *[]time.Duration
		}{{a, &timesA}, {b, &timesB}} {
			began := time.Now()
			for range calls {
				if err := call(ctx, side.client); err != nil {
					return 0, 0, err
				}
			}
			if round > 0 { // the first one warms up
				*side.times = append(*side.times, time.Since(began)/time.Duration(calls))
			}
		}
	}
	return median(timesA), median(timesB), nil
}

func median[T int | int64 | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
