package claims

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/rest"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/dra"
	"github.com/accelmux/accelmux/core/dra/claim"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/kubeapi"
	accelmux "github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/test/bench/claims/minimal"
	"github.com/accelmux/accelmux/test/bench/rig"
)

// publications are those of each side.
const publications = 40

// publishers publish the same devices: those of two generations, which have nothing in common.
type publishers struct {
	dir    string
	server *apiServer
	ours   []dra.Publication
	floors [][]resourceapi.Device
}

// generations are the classes of the devices, which one after the other are published.
var generations = []string{"one", "two"}

// publish times the publications of new drivers, and each one's second, in turns.
func publish(s *rig.Setup) (_ []rig.Figure, err error) {
	p := &publishers{}
	if p.server, err = startAPIServer(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.server.stop()) }()
	if p.dir, err = os.MkdirTemp("", "b"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.dir)) }()
	p.fill()
	var times [2][2][]time.Duration // by side and generation
	for range s.Samples(publications) {
		for i, publish := range []func() ([]time.Duration, error){p.publishOurs, p.publishFloor} {
			took, err := publish()
			if err != nil {
				return nil, err
			}
			for g := range took {
				times[i][g] = append(times[i][g], took[g])
			}
		}
	}
	var figures []rig.Figure
	for g, what := range []string{"1,024 devices of a new driver published, p50", "1,024 changed devices published, p50"} {
		figures = append(figures, rig.Figure{
			What: what, Value: rig.Milliseconds(rig.Median(times[0][g])), Unit: "ms", Times: maxPublish, Samples: len(times[0][g]),
			Floor: rig.Milliseconds(rig.Median(times[1][g])), FloorIs: floorIs,
		})
	}
	return figures, nil
}

// fill makes the devices.
func (p *publishers) fill() {
	backend := &inventory.Backend{Name: "mock", Description: inventory.Description{Name: "mock", Vendor: "example.com"}}
	for _, class := range generations {
		ours := dra.Publication{Backend: backend, Complete: true, Resource: func(inventory.Key) string { return resource }}
		for i := range many {
			ours.Devices = append(ours.Devices, accelmux.Device{
				Device:  &inventory.Device{Key: inventory.Key{Backend: "mock", ID: fmt.Sprintf("mock-%d", i)}, Class: class, NUMANodes: []int{i % 2}},
				Verdict: health.Verdict{Healthy: true},
			})
		}
		same := pool.New(pool.Options{Backend: backend, Devices: ours.Devices, Resource: ours.Resource, Features: pool.Features{Taints: true}})
		var floors []resourceapi.Device
		for _, slice := range same.Slices {
			floors = append(floors, slice.Devices...)
		}
		p.ours, p.floors = append(p.ours, ours), append(p.floors, floors)
	}
}

// times publishes all generations, and returns how long each took.
func (p *publishers) times(driver string, publish func(generation int) error) (times []time.Duration, err error) {
	for g, class := range generations {
		began := time.Now()
		if err := publish(g); err != nil {
			return nil, err
		}
		if _, err := p.server.await(driver, many, class); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// connect returns a client with its own bound on requests.
func (p *publishers) connect() (*kubeapi.Client, error) {
	return kubeapi.Connect(&rest.Config{Host: p.server.URL})
}

// publishOurs starts and times a driver of the core, and deletes its slices.
func (p *publishers) publishOurs() (times []time.Duration, err error) {
	record, err := claim.Open(filepath.Join(p.dir, "claims"), checkpoint.Writer{})
	if err != nil {
		return nil, err
	}
	api, err := p.connect()
	if err != nil {
		return nil, err
	}
	defer api.Close()
	// No claim is prepared: there is no lifecycle.
	d, err := dra.Start(context.Background(), dra.Options{
		Name: driver, NodeName: nodeName, BootID: "boot", KubeletDir: p.dir, Sysfs: p.dir, Client: api.Clientset(), Record: record,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		d.Stop()
		err = errors.Join(err, p.server.forget(driver))
	}()
	return p.times(driver, func(generation int) error {
		d.Publish(p.ours[generation])
		return nil
	})
}

// publishFloor starts and times a minimal driver, and deletes its slices.
func (p *publishers) publishFloor() (times []time.Duration, err error) {
	api, err := p.connect()
	if err != nil {
		return nil, err
	}
	defer api.Close()
	d, err := minimal.Start(context.Background(), minimal.Options{Name: floorDriver, Node: nodeName, KubeletDir: p.dir, CDIDir: p.dir, Client: api.Clientset()})
	if err != nil {
		return nil, err
	}
	defer func() {
		d.Stop()
		err = errors.Join(err, p.server.forget(floorDriver))
	}()
	return p.times(floorDriver, func(generation int) error { return d.Publish(context.Background(), p.floors[generation]) })
}
