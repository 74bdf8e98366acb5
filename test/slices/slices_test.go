// Package slices compares the inventory's rules with those of the API server.
package slices

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/resource"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	assignment "github.com/accelmux/accelmux/core/resource"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that the API server accepts the attributes, capacities, request policies and
// counters of every device that the inventory accepts as they are published, whatever a backend reports.
func TestTheAPIServerAcceptsWhatTheInventoryAccepts(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DRAListTypeAttributes, true)
	rapid.Check(t, func(t *rapid.T) {
		store := inventory.NewStore(nil)
		store.Describe("acme", inventory.Description{Name: "acme", Classes: []string{"gpu"}, Prepare: true, Release: true})
		report := &backendv1.Inventory{Generation: 1, Devices: []*backendv1.Device{{Id: "valid", Class: "gpu"}}}
		for range 2 {
			report.CounterSets = append(report.CounterSets, &backendv1.CounterSet{Name: name.Draw(t, "set"), Counters: counters.Draw(t, "counters")})
		}
		for i := range 3 {
			report.Devices = append(report.Devices, device(t, fmt.Sprintf("d%d", i), report.CounterSets))
		}
		encoded, err := inventory.EncodeReport(report)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Report("acme", encoded); err != nil {
			t.Fatal(err)
		}
		for _, slice := range publish(t, store.Snapshot().Backends[0]) {
			internal := &resource.ResourceSlice{}
			if err := legacyscheme.Scheme.Convert(slice, internal, nil); err != nil {
				t.Fatal(err)
			}
			ctx := genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(genericapirequest.NewContext(), ""), &genericapirequest.RequestInfo{
				APIGroup: resourceapi.GroupName, APIVersion: "v1", Resource: "resourceslices",
			})
			rest.FillObjectMetaSystemFields(internal)
			if err := rest.BeforeCreate(resourceslice.Strategy, ctx, internal); err != nil {
				t.Fatalf("%v\n%+v", err, slice.Spec)
			}
		}
	})
}

var (
	name     = rapid.SampledFrom([]string{"a", "b", "A", "a_b", "a-b", "", "1", "gpu-0", strings.Repeat("x", 32), strings.Repeat("x", 33), strings.Repeat("x", 64)})
	domain   = rapid.SampledFrom([]string{"", "", "", "example.com/", "resource.kubernetes.io/", "acme/", "accelmux.io/", "Example.com/", "a..b/", "/", strings.Repeat("x", 63) + "/", strings.Repeat("x", 64) + "/"})
	text     = rapid.SampledFrom([]string{"", "x", "M1\n", strings.Repeat("x", 64), strings.Repeat("x", 65), "é", "1.2.3", "1.2", "01.2.3"})
	amount   = rapid.Int64Range(-1, 8)
	counters = rapid.MapOfN(name, amount, 0, 3)
)

func device(t *rapid.T, id string, sets []*backendv1.CounterSet) *backendv1.Device {
	d := &backendv1.Device{
		Id: id, Class: "gpu", Attributes: map[string]*backendv1.Attribute{}, Capacities: map[string]int64{"memory": 8},
		RequestPolicies: map[string]*backendv1.RequestPolicy{}, Shareable: rapid.Bool().Draw(t, "shareable"),
	}
	if d.Potential = rapid.Bool().Draw(t, "potential"); d.GetPotential() {
		d.Hooks = []backendv1.Hook{backendv1.Hook_HOOK_PREPARE, backendv1.Hook_HOOK_RELEASE}
	}
	for range rapid.IntRange(0, 6).Draw(t, "attributes") {
		d.Attributes[domain.Draw(t, "domain")+name.Draw(t, "name")] = attribute(t)
	}
	for range rapid.IntRange(0, 3).Draw(t, "capacities") {
		d.Capacities[domain.Draw(t, "domain")+name.Draw(t, "name")] = amount.Draw(t, "amount")
	}
	for capacity := range d.Capacities {
		if !rapid.Bool().Draw(t, "policy") {
			continue
		}
		p := &backendv1.RequestPolicy{Default: amount.Draw(t, "default"), Values: rapid.SliceOfN(amount, 0, 3).Draw(t, "values")}
		if rapid.Bool().Draw(t, "sorted") {
			slices.Sort(p.Values)
		}
		if rapid.Bool().Draw(t, "range") {
			p.Range = &backendv1.AmountRange{Min: amount.Draw(t, "min"), Max: amount.Draw(t, "max"), Step: amount.Draw(t, "step")}
		}
		d.RequestPolicies[capacity] = p
	}
	for range rapid.IntRange(0, 2).Draw(t, "consumptions") {
		set := rapid.SampledFrom(sets).Draw(t, "set")
		d.Consumes = append(d.Consumes, &backendv1.CounterConsumption{CounterSet: set.GetName(), Counters: counters.Draw(t, "consumed")})
	}
	return d
}

func attribute(t *rapid.T) *backendv1.Attribute {
	texts := &backendv1.Strings{Values: rapid.SliceOfN(text, 0, 2).Draw(t, "texts")}
	return rapid.SampledFrom([]*backendv1.Attribute{
		nil, {}, {Value: &backendv1.Attribute_StringValue{StringValue: text.Draw(t, "text")}},
		{Value: &backendv1.Attribute_VersionValue{VersionValue: text.Draw(t, "version")}},
		{Value: &backendv1.Attribute_IntValue{IntValue: amount.Draw(t, "int")}}, {Value: &backendv1.Attribute_BoolValue{BoolValue: true}},
		{Value: &backendv1.Attribute_StringValues{StringValues: texts}}, {Value: &backendv1.Attribute_VersionValues{VersionValues: texts}},
	}).Draw(t, "attribute")
}

const driver = "acme.accelmux.io"

// sliced returns the slices of a pool.
func sliced(p *pool.Pool) (all []*resourceapi.ResourceSlice) {
	for i, s := range p.Slices {
		all = append(all, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("slice%d", i)}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: new("node"), Pool: resourceapi.ResourcePool{Name: "node", ResourceSliceCount: int64(len(p.Slices))},
			Devices: s.Devices, SharedCounters: s.SharedCounters,
		}})
	}
	return all
}

// publish returns the slices of a backend.
func publish(t *rapid.T, b *inventory.Backend) []*resourceapi.ResourceSlice {
	o := pool.Options{
		Backend: b, Evict: pool.Eviction{On: true},
		Features: pool.Features{Taints: true, Shares: true, Lists: rapid.Bool().Draw(t, "lists"), Counters: rapid.Bool().Draw(t, "counters used")},
	}
	for _, d := range b.Devices {
		o.Devices = append(o.Devices, assignment.Device{Device: d, Verdict: verdict.Draw(t, "verdict")})
	}
	return sliced(pool.New(o))
}

var verdict = rapid.Custom(func(t *rapid.T) health.Verdict {
	if rapid.Bool().Draw(t, "healthy") {
		return health.Verdict{Healthy: true}
	}
	return health.Verdict{Faults: []health.Fault{{
		Code:  rapid.SampledFrom([]string{"", "xid-79", "-", "_a", strings.Repeat("x", 63)}).Draw(t, "code"),
		Reach: rapid.SampledFrom([]inventory.Reach{inventory.ReachNewHolders, inventory.ReachHolders}).Draw(t, "reach"), Since: time.Now(),
	}}}
})
