// Package pool computes what the driver of a backend publishes of its devices: a pool of
// ResourceSlices of resource.k8s.io/v1.
//
// It publishes nothing, and stores nothing: the same devices give the same pool. With taints, a change
// of one device's health changes one slice.
//
// The API server refuses a slice as a whole. An attribute or capacity that it would refuse, or would
// drop without an error because the cluster does not have the feature, is therefore left out here,
// and is in a note: on a healthy node there is nothing to be done about it. A device that is left out is
// a problem.
package pool

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/text"
)

// Features are the optional features of the API server.
type Features struct {
	// Taints are taints of devices (KEP-5055).
	Taints bool
	// Shares are devices with several allocations, and request policies (KEP-5075).
	Shares bool
	// Lists are attributes with several values (KEP-5491).
	Lists bool
	// Counters are counter sets, in slices of their own, of which devices consume (KEP-4815).
	Counters bool
	// Binding are pods that are bound only when their devices are prepared (KEP-5007).
	Binding bool
}

// Options of [New].
type Options struct {
	// Backend has the description, all devices, and the counter sets of which they consume.
	Backend *inventory.Backend
	// Devices are those that the driver serves, all of the backend, in the order in which the
	// scheduler is to try them.
	Devices []resource.Device
	// LinkGroups are the link groups of the devices, by their IDs, which become attributes.
	LinkGroups map[string]LinkGroups
	Features
	Evict Eviction
}

// Pool is a pool of slices. It never changes.
type Pool struct {
	resourceslice.Pool
	// Problems are the devices that are not published.
	Problems []inventory.Problem
	// Notes are the attributes and capacities that are not published, one for each reason.
	Notes []string
}

// Objects returns the slices of a driver on a node as objects. Their names order them as those that the
// API server has.
func (p *Pool) Objects(driver, node string) (all []*resourceapi.ResourceSlice) {
	for i, s := range p.Slices {
		all = append(all, &resourceapi.ResourceSlice{
			TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSlice"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%04d-%s-%s", i, driver, node)},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: driver, NodeName: &node, Devices: s.Devices, SharedCounters: s.SharedCounters,
				Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(len(p.Slices))},
			},
		})
	}
	return all
}

// New returns the pool of a backend's devices. Without the feature Counters, potential devices are not
// published. Without Taints, unhealthy devices are not either. Without Shares, a device that may have several
// holders is published as a device with one. A pool without devices has one slice, which is empty: the driver
// is running.
func New(o Options) *Pool {
	p := &Pool{}
	b := &builder{Options: o, omitted: map[string][]string{}, consuming: map[inventory.Key]bool{}}
	size := resourceapi.ResourceSliceMaxDevices
	if o.Taints || o.Lists || o.Counters {
		size = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	var devices []resourceapi.Device
	for _, d := range o.Devices {
		switch {
		case d.Potential && !o.Counters:
			b.potential = append(b.potential, d.ID)
			continue
		case !d.Verdict.Healthy && !o.Taints:
			continue
		}
		devices = append(devices, b.device(d))
	}
	for sets := range slices.Chunk(b.counterSets(), resourceapi.ResourceSliceMaxCounterSets) {
		p.Slices = append(p.Slices, resourceslice.Slice{SharedCounters: sets})
	}
	for slice := range slices.Chunk(devices, size) {
		p.Slices = append(p.Slices, resourceslice.Slice{Devices: slice})
	}
	if len(p.Slices) == 0 {
		p.Slices = []resourceslice.Slice{{}}
	}
	p.Problems, p.Notes = b.problems(), b.notes()
	return p
}

// builder makes the devices of a pool, and collects what it leaves out.
type builder struct {
	Options
	// omitted are attributes and capacities, by the reason; reasons has the order.
	omitted map[string][]string
	reasons []string
	// potential are the devices that are left out.
	potential []string
	// consuming are the devices that are published with what they consume.
	consuming map[inventory.Key]bool
}

// omit records an attribute or capacity that is left out of a device.
func (b *builder) omit(what, why string) {
	if b.omitted[why] == nil {
		b.reasons = append(b.reasons, why)
	}
	if !slices.Contains(b.omitted[why], what) {
		b.omitted[why] = append(b.omitted[why], what)
	}
}

// maxNoted bounds the attributes that a note names.
const maxNoted = 16

func (b *builder) notes() (all []string) {
	for _, why := range b.reasons {
		names := b.omitted[why]
		all = append(all, "not published: "+text.First(names, maxNoted)+": "+why)
	}
	return all
}

func (b *builder) problems() []inventory.Problem {
	if len(b.potential) == 0 {
		return nil
	}
	message := "dynamic resource allocation: the device is not published: it does not exist before a claim has it, and the cluster does not have counters of devices (feature gate DRAPartitionableDevices)"
	if more := len(b.potential) - 1; more > 0 {
		message = fmt.Sprintf("%s; also %d other devices", message, more)
	}
	return []inventory.Problem{{Device: b.potential[0], Message: message}}
}
