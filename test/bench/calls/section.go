// Package calls is the section of all of kubelet's calls that choose or hand out
// devices, on machines of several shapes.
package calls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/test/bench/rig"
)

// Section is this section of the table.
var Section = rig.Section{
	Name: "calls",
	About: "Kubelet's calls on machines of several shapes, with the mock backend, and of a bare gRPC server that answers\n" +
		"a constant; medians of rounds in turns.",
	Measure: measure,
}

const (
	resource = "example.com/gpu"
	config   = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - {name: mock, settings: %s}
    resources:
      - {name: example.com/gpu, injection: cdi%s}
`
	// rounds of each side, and calls in each of them.
	rounds, calls = 15, 500
)

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

func measure(s *rig.Setup) ([]rig.Figure, error) {
	var all []rig.Figure
	for _, m := range machines {
		figures, err := measureOne(s, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		all = append(all, figures...)
	}
	return all, nil
}

type call func(context.Context, pluginapi.DevicePluginClient) error

// benchmark is a call that is measured.
type benchmark struct {
	name  string
	call  call
	floor *grpc.ClientConn
}

func measureOne(s *rig.Setup, m machine) (_ []rig.Figure, err error) {
	node, err := rig.Start(rig.NodeOptions{
		Bin: s.Bin, Config: fmt.Sprintf(config, m.settings, m.resource), Want: map[string]int{resource: m.units},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	agent, err := rig.Dial(node.Socket(resource))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, agent.Close()) }()

	ids := node.Units(resource)
	one, err := newAllocate(node, agent, ids[:1])
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, one.stop()) }()
	eight, err := newAllocate(node, agent, ids[:8])
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eight.stop()) }()
	var cases []benchmark
	for _, size := range m.sizes {
		cases = append(cases, benchmark{fmt.Sprintf("GetPreferredAllocation, %d of %s", size, m.name), prefer(ids, size), eight.floor})
	}
	cases = append(cases, one.benchmark("Allocate, 1 of "+m.name), eight.benchmark("Allocate, 8 of "+m.name))
	var figures []rig.Figure
	for _, c := range cases {
		f, err := race(agent, c, s.Samples(rounds))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// allocation is an Allocate, and the floor that answers the same.
type allocation struct {
	request *pluginapi.AllocateRequest
	process *rig.Floor
	floor   *grpc.ClientConn
}

func newAllocate(node *rig.Node, agent *grpc.ClientConn, ids []string) (_ *allocation, err error) {
	a := &allocation{request: rig.AllocateRequest(ids...)}
	answer, err := pluginapi.NewDevicePluginClient(agent).Allocate(context.Background(), a.request)
	if err != nil {
		return nil, err
	}
	if a.process, err = rig.StartFloor(node.Path(fmt.Sprintf("floor%d.sock", len(ids))), answer); err != nil {
		return nil, err
	}
	if a.floor, err = rig.Dial(a.process.Socket); err != nil {
		return nil, errors.Join(err, a.process.Stop())
	}
	return a, nil
}

func (a *allocation) stop() error { return errors.Join(a.floor.Close(), a.process.Stop()) }

func (a *allocation) benchmark(name string) benchmark {
	return benchmark{name, func(ctx context.Context, client pluginapi.DevicePluginClient) error {
		_, err := client.Allocate(ctx, a.request)
		return err
	}, a.floor}
}

func prefer(ids []string, size int32) call {
	request := &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: ids, AllocationSize: size},
	}}
	return func(ctx context.Context, client pluginapi.DevicePluginClient) error {
		_, err := client.GetPreferredAllocation(ctx, request)
		return err
	}
}

// race compares the median time of a call on each side, over rounds of them.
func race(agent *grpc.ClientConn, c benchmark, rounds int) (rig.Figure, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	round := func(conn *grpc.ClientConn) func() error {
		client := pluginapi.NewDevicePluginClient(conn)
		return func() error {
			for range calls {
				if err := c.call(ctx, client); err != nil {
					return err
				}
			}
			return nil
		}
	}
	ours, floor, err := rig.Interleave(round(agent), round(c.floor), rounds, 1)
	if err != nil {
		return rig.Figure{}, err
	}
	return rig.Figure{
		What: c.name, Value: rig.Microseconds(rig.Median(ours)) / calls, Unit: "µs",
		Floor: rig.Microseconds(rig.Median(floor)) / calls, FloorIs: "a bare gRPC server", Samples: rounds * calls,
	}, nil
}
