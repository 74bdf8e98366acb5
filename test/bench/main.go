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

// machine is what the agent serves in a run.
type machine struct {
	name string
	// settings are the mock backend's, resource what the resource has besides a name.
	settings, resource string
	units              int
	// sizes are how many units kubelet asks a preference for.
	sizes []int32
}

// machines have the shapes that choices differ by: a switch, a mesh that is no
// hierarchy, partitions, replicas, and many devices.
var machines = []machine{
	{"8 GPUs at a switch", "{count: 8, numaNodes: 2, links: {topology: all-to-all, kind: nvswitch, count: 18}}", "", 8, []int32{1, 4}},
	{"16 GPUs in a ring", "{count: 16, numaNodes: 2, links: {topology: ring}}", "", 16, []int32{1, 4, 8}},
	{
		"63 partitions", "{devices: [{count: 7, numaNodes: 2, partitions: {count: 8}}, {numaNodes: [1], partitions: {count: 7}}]}", "",
		63, []int32{1, 4, 8, 32},
	},
	{
		"1,024 replicas of 8 GPUs", "{count: 8, numaNodes: 2, links: {topology: all-to-all}}",
		", replicas: 128, maxReplicasPerContainer: 0", 1024, []int32{1, 8, 512},
	},
	{"1,000 devices", "{count: 1000, numaNodes: 2}", "", 1000, []int32{4}},
}

func measure(bin string, rounds, calls int) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	for _, m := range machines {
		if err := measureOne(bin, m, rounds, calls); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

func measureOne(bin string, m machine, rounds, calls int) (err error) {
	node, err := startNode(bin, m)
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

	fmt.Printf("%s\n", m.name)
	fmt.Printf("  %-34s %12s %12s %8s\n", "", "accelmux", "floor", "ratio")
	ids := node.ids
	cases := []benchmark{{"Allocate, 1", allocate(ids[:1])}, {"Allocate, 8", allocate(ids[:8])}}
	for _, size := range m.sizes {
		cases = append(cases, benchmark{fmt.Sprintf("GetPreferredAllocation, %d of %d", size, len(ids)), prefer(ids, size)})
	}
	for _, c := range cases {
		ours, bare, err := race(pluginapi.NewDevicePluginClient(agent), pluginapi.NewDevicePluginClient(floor), c.call, rounds, calls)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("  %-34s %12v %12v %8.2f\n", c.name, ours, bare, float64(ours)/float64(bare))
	}
	return node.printMemory()
}

// benchmark is a call that is measured.
type benchmark struct {
	name string
	call func(context.Context, pluginapi.DevicePluginClient) error
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
