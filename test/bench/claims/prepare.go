package claims

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/accelmux/accelmux/test/bench/rig"
)

const (
	// calls are the claims that each side prepares.
	calls = 400
	// apart is the time after a claim of each side, in which all that follows its end is done.
	apart = 30 * time.Millisecond
	// maxPrepare is how many times the minimal driver's time the agent's may be.
	maxPrepare = 1.5
	// floorDriver is the name of the minimal driver, and floorIs what the table calls it.
	floorDriver = "floor.accelmux.io"
	floorIs     = "a minimal driver with one CDI file"
)

// side is a driver whose claims are prepared.
type side struct {
	server  *apiServer
	driver  string
	devices []string
	conn    *grpc.ClientConn
	// prepared and ended are how long the calls took.
	prepared, ended []time.Duration
}

// connect returns the side of a driver that has published.
func connect(s *apiServer, dir, driver string) (*side, error) {
	published, err := s.await(driver, few)
	if err != nil {
		return nil, err
	}
	d := &side{server: s, driver: driver}
	for _, slice := range published {
		for _, device := range slice.Spec.Devices {
			d.devices = append(d.devices, device.Name)
		}
	}
	d.conn, err = rig.Dial(filepath.Join(dir, "plugins", driver, "dra.sock"))
	return d, err
}

// prepare times the preparation and the end of a new claim of all devices.
func (d *side) prepare(number int) error {
	name := d.driver + "-" + strconv.Itoa(number)
	c := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: name},
		Status: resourceapi.ResourceClaimStatus{
			Allocation:  &resourceapi.AllocationResult{},
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "pod"}},
		},
	}
	for _, device := range d.devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "gpus", Driver: d.driver, Pool: nodeName, Device: device})
	}
	ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
	defer cancel()
	c, err := d.server.putClaim(ctx, c)
	if err != nil {
		return err
	}
	client, asked := drapb.NewDRAPluginClient(d.conn), []*drapb.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}
	began := time.Now()
	prepared, err := client.NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{Claims: asked})
	took := time.Since(began)
	if err != nil {
		return err
	}
	if one := prepared.GetClaims()[string(c.UID)]; one.GetError() != "" || len(one.GetDevices()) != few {
		return fmt.Errorf("driver %s prepared %d devices: %s", d.driver, len(one.GetDevices()), one.GetError())
	}
	began = time.Now()
	ended, err := client.NodeUnprepareResources(ctx, &drapb.NodeUnprepareResourcesRequest{Claims: asked})
	if err != nil {
		return err
	}
	if problem := ended.GetClaims()[string(c.UID)].GetError(); problem != "" {
		return fmt.Errorf("driver %s unprepared: %s", d.driver, problem)
	}
	d.prepared, d.ended = append(d.prepared, took), append(d.ended, time.Since(began))
	return nil
}

// prepare times claims of the agent and of the minimal driver in turns.
func prepare(s *rig.Setup, n *node) (_ []rig.Figure, err error) {
	program := n.Path("floor")
	if err := errors.Join(rig.Build(program, "claims/floor"), os.MkdirAll(n.Path("floor-cdi"), 0o755)); err != nil { //nolint:gosec // as the CDI directory is
		return nil, err
	}
	floor := rig.Command(program, kubeconfig(n.Dir), nodeName, n.Path("kubelet"), n.Path("floor-cdi"), floorDriver, strconv.Itoa(few))
	if err := floor.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rig.End(floor)) }()
	var sides []*side
	for _, name := range []string{driver, floorDriver} {
		d, err := connect(n.server, n.Path("kubelet"), name)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, d.conn.Close()) }()
		sides = append(sides, d)
	}
	ours, floors := sides[0], sides[1]
	count := s.Samples(calls)
	for i := range count + 1 {
		for _, d := range sides {
			if err := d.prepare(i); err != nil {
				return nil, err
			}
			if i == 0 { // the first one warms up
				d.prepared, d.ended = nil, nil
			}
		}
		<-time.After(apart)
		sides[0], sides[1] = sides[1], sides[0]
	}
	figure := func(what string, times float64, q float64, a, b []time.Duration) rig.Figure {
		return rig.Figure{
			What: what, Unit: "ms", Times: times, Samples: count, FloorIs: floorIs,
			Value: rig.Milliseconds(rig.Quantile(a, q)), Floor: rig.Milliseconds(rig.Quantile(b, q)),
		}
	}
	return []rig.Figure{
		figure("p50 of Prepare, a claim of 8 devices", maxPrepare, 0.5, ours.prepared, floors.prepared),
		figure("p90 of the same", 0, 0.9, ours.prepared, floors.prepared),
		figure("p50 of Unprepare", 0, 0.5, ours.ended, floors.ended),
	}, nil
}
