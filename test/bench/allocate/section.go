// Package allocate is the section of the call that each pod waits for.
package allocate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/test/bench/rig"
)

// Section is this section of the table.
var Section = rig.Section{
	Name: "allocate",
	About: "Allocate through the agent, with the mock backend of 8 devices, and of a bare gRPC server (grpc.NewServer\n" +
		"without options) on a unix socket that answers the same bytes. Client and servers are three processes of three\n" +
		"programs; calls are timed one by one, in blocks of 50 of each side in turns.",
	Measure: measure,
}

const (
	resource = "example.com/gpu"
	devices  = 8
	config   = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - {name: mock, settings: {count: 8, numaNodes: 2}}
    resources:
      - {name: example.com/gpu, injection: cdi}
`
	// blocks of each side, and calls in each of them.
	blocks, calls = 400, 50
	// p50 and p99 are the limits, in times the floor's.
	p50, p99 = 1.15, 1.3
)

func measure(s *rig.Setup) (_ []rig.Figure, err error) {
	node, err := rig.Start(rig.NodeOptions{Bin: s.Bin, Config: config, Want: map[string]int{resource: devices}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	ids := node.Units(resource)
	var figures []rig.Figure
	for _, wanted := range [][]string{ids[:1], ids} {
		more, err := compare(s, node, wanted)
		if err != nil {
			return nil, fmt.Errorf("%d devices: %w", len(wanted), err)
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// compare times the calls for some units.
func compare(s *rig.Setup, node *rig.Node, ids []string) (_ []rig.Figure, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := rig.Dial(node.Socket(resource))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	agent, request := pluginapi.NewDevicePluginClient(conn), rig.AllocateRequest(ids...)
	answer, err := agent.Allocate(ctx, request)
	if err != nil {
		return nil, err
	}
	floor, err := rig.StartFloor(node.Path("floor.sock"), answer)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.Stop()) }()
	bareConn, err := rig.Dial(floor.Socket)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bareConn.Close()) }()
	bare := pluginapi.NewDevicePluginClient(bareConn)
	size, err := sameAnswer(ctx, agent, bare, request)
	if err != nil {
		return nil, err
	}
	call := func(client pluginapi.DevicePluginClient) func() error {
		return func() error {
			_, err := client.Allocate(ctx, request)
			return err
		}
	}
	var ours, floors []time.Duration
	cpu, err := used(func() (err error) {
		ours, floors, err = interleave(call(agent), call(bare), s.Samples(blocks), calls)
		return err
	}, node.Agent, floor.PID())
	if err != nil {
		return nil, err
	}
	return figures(len(ids), size, ours, floors, cpu), nil
}

// used is what processes use of the CPU while do runs.
func used(do func() error, pids ...int) ([]time.Duration, error) {
	times := make([]time.Duration, len(pids))
	add := func(sign time.Duration) error {
		for i, pid := range pids {
			now, err := rig.CPU(pid)
			if err != nil {
				return err
			}
			times[i] += sign * now
		}
		return nil
	}
	if err := add(-1); err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	return times, add(1)
}

// figures are the lines of so many units, whose answer has size bytes; cpu is that of the
// agent and of the floor.
func figures(units, size int, ours, floors, cpu []time.Duration) []rig.Figure {
	const is = "a bare gRPC server"
	of := fmt.Sprintf("%d of %d devices", units, devices)
	var all []rig.Figure
	for _, q := range []struct {
		name         string
		value, times float64
	}{{"p50", 0.5, p50}, {"p99", 0.99, p99}} {
		all = append(all, rig.Figure{
			What: q.name + ", " + of, Unit: "µs", Times: q.times, Samples: len(ours),
			Value: rig.Microseconds(rig.Quantile(ours, q.value)), Floor: rig.Microseconds(rig.Quantile(floors, q.value)),
			FloorIs: is, Note: fmt.Sprintf("an answer of %d bytes", size),
		})
	}
	// A pair of blocks warmed up.
	each := func(i int) float64 { return rig.Microseconds(cpu[i]) / float64(len(ours)+calls) }
	return append(all, rig.Figure{
		What: "CPU of the server, " + of, Unit: "µs", Samples: len(ours),
		Value: each(0), Floor: each(1), FloorIs: is, Note: "a call, with all that follows it",
	})
}

// sameAnswer is how many bytes the answer has, if it is the same of both.
func sameAnswer(ctx context.Context, agent, bare pluginapi.DevicePluginClient, request *pluginapi.AllocateRequest) (int, error) {
	var answers [2][]byte
	for i, client := range []pluginapi.DevicePluginClient{agent, bare} {
		answer, err := client.Allocate(ctx, request)
		if err != nil {
			return 0, err
		}
		if answers[i], err = (proto.MarshalOptions{Deterministic: true}).Marshal(answer); err != nil {
			return 0, err
		}
	}
	if !bytes.Equal(answers[0], answers[1]) {
		return 0, errors.New("the floor does not answer what the agent does")
	}
	return len(answers[0]), nil
}

// interleave times single calls of two sides in turns: blocks of each side, of which the
// first is that side which was the second before, so that whatever the machine does
// meanwhile meets both. A first pair of blocks warms up and does not count.
func interleave(a, b func() error, blocks, calls int) (timesA, timesB []time.Duration, err error) {
	timesA, timesB = make([]time.Duration, 0, blocks*calls), make([]time.Duration, 0, blocks*calls)
	sides := []struct {
		call  func() error
		times *[]time.Duration
	}{{a, &timesA}, {b, &timesB}}
	for block := range blocks + 1 {
		for _, side := range sides {
			for range calls {
				began := time.Now()
				if err := side.call(); err != nil {
					return nil, nil, err
				}
				if block > 0 {
					*side.times = append(*side.times, time.Since(began))
				}
			}
		}
		sides[0], sides[1] = sides[1], sides[0]
	}
	return timesA, timesB, nil
}
