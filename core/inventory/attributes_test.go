package inventory

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func textAttribute(s string) *backendv1.Attribute {
	return &backendv1.Attribute{Value: &backendv1.Attribute_StringValue{StringValue: s}}
}

// Verifies that an invalid attribute, capacity or policy is left out, with a problem, and that
// the device stays.
func TestAttributeLeftOut(t *testing.T) {
	attribute := func(name string, a *backendv1.Attribute) func(*backendv1.Device) {
		return func(d *backendv1.Device) { d.Attributes[name] = a }
	}
	version := func(s string) *backendv1.Attribute {
		return &backendv1.Attribute{Value: &backendv1.Attribute_VersionValue{VersionValue: s}}
	}
	texts := func(values ...string) *backendv1.Attribute {
		return &backendv1.Attribute{Value: &backendv1.Attribute_StringValues{StringValues: &backendv1.Strings{Values: values}}}
	}
	capacity := func(name string, amount int64) func(*backendv1.Device) {
		return func(d *backendv1.Device) { d.Capacities[name] = amount }
	}
	policy := func(p *backendv1.RequestPolicy) func(*backendv1.Device) {
		return func(d *backendv1.Device) {
			d.Shareable, d.RequestPolicies = true, map[string]*backendv1.RequestPolicy{"memory": p}
		}
	}
	for name, tc := range map[string]struct {
		change func(*backendv1.Device)
		want   string // part of the problem
	}{
		"name":              {attribute("a-b", textAttribute("x")), `attribute "a-b" is left out: its name`},
		"long name":         {attribute(strings.Repeat("a", 33), textAttribute("x")), "at most 32"},
		"domain":            {attribute("a_b/x", textAttribute("x")), "its domain must be"},
		"long domain":       {attribute(strings.Repeat("a", 64)+"/x", textAttribute("x")), "at most 63"},
		"core's domain":     {attribute("accelmux.io/id", textAttribute("x")), "is the core's"},
		"own domain":        {attribute("mock/x", textAttribute("x")), "the name without it"},
		"core's attribute":  {attribute("resource.kubernetes.io/numaNode", textAttribute("x")), "numa_nodes"},
		"empty":             {attribute("a", &backendv1.Attribute{}), "its value is missing"},
		"nil":               {attribute("a", nil), "its value is missing"},
		"long":              {attribute("a", textAttribute(strings.Repeat("x", 65))), "its value has 65 bytes; at most 64"},
		"control":           {attribute("a", textAttribute("M1\n")), "control characters"},
		"bidi":              {attribute("a", textAttribute("M1\u202e")), "control characters"},
		"empty list":        {attribute("a", texts()), "is a list of 0"},
		"long list":         {attribute("a", texts(make([]string, 49)...)), "is a list of 49"},
		"entry of a list":   {attribute("a", texts("x", "\x00")), "has an entry 2 that"},
		"version zero":      {attribute("a", version("1.02.3")), "not a semantic version"},
		"version large pre": {attribute("a", version("1.2.3-99999999999999999999")), "above 2^64"},
		"version long":      {attribute("a", version("1.2.3-"+strings.Repeat("x", 60))), "at most 64"},
		"capacity name":     {capacity("1a", 1), `capacity "1a" is left out: its name`},
		"capacity negative": {capacity("memories", -1), "never negative"},
		"policy of nothing": {func(d *backendv1.Device) {
			d.Shareable, d.RequestPolicies = true, map[string]*backendv1.RequestPolicy{"x": {Default: 1}}
		}, "no such capacity"},
		"policy unshared": {func(d *backendv1.Device) {
			d.RequestPolicies = map[string]*backendv1.RequestPolicy{"memory": {Default: 1}}
		}, "not shareable"},
		"policy default":      {policy(&backendv1.RequestPolicy{}), "its default is 0"},
		"policy above":        {policy(&backendv1.RequestPolicy{Default: 1<<30 + 1}), "at most the capacity"},
		"policy both":         {policy(&backendv1.RequestPolicy{Default: 1, Values: []int64{1}, Range: &backendv1.AmountRange{}}), "set one of them"},
		"policy values":       {policy(&backendv1.RequestPolicy{Default: 1, Values: []int64{1, 3, 2}}), "must ascend"},
		"policy many values":  {policy(&backendv1.RequestPolicy{Default: 1, Values: make([]int64, 11)}), "at most 10"},
		"policy other values": {policy(&backendv1.RequestPolicy{Default: 1, Values: []int64{2, 4}}), "contain the default"},
		"policy range":        {policy(&backendv1.RequestPolicy{Default: 1, Range: &backendv1.AmountRange{Min: 2}}), "contain the default"},
		"policy steps":        {policy(&backendv1.RequestPolicy{Default: 3, Range: &backendv1.AmountRange{Min: 2, Max: 8, Step: 2}}), "whole steps of 2"},
	} {
		s, _ := newTestStore(t)
		d, want := wireDevice("a"), mustReport(t, s, inv(1, wireDevice("a"))).Devices[0]
		tc.change(d)
		b := mustReport(t, s, inv(2, d))
		if len(b.Devices) != 1 || len(b.Problems) != 1 || b.Problems[0].Device != "a" || !strings.Contains(b.Problems[0].Message, tc.want) {
			t.Errorf("%s: devices %s, problems %+v, want %q", name, ids(b.Devices), b.Problems, tc.want)
			continue
		}
		if got := b.Devices[0]; !reflect.DeepEqual(got.Attributes, want.Attributes) || !reflect.DeepEqual(got.Capacities, want.Capacities) || got.Policies != nil {
			t.Errorf("%s: %v, %v and %v stay", name, got.Attributes, got.Capacities, got.Policies)
		}
	}
}

// Verifies that names beyond the limit are left out.
func TestTooManyNames(t *testing.T) {
	s, _ := newTestStore(t)
	d := wireDevice("a") // which has 4 attributes and a capacity
	for i := range 124 {
		d.Attributes[fmt.Sprintf("a%d", i)] = textAttribute("x")
	}
	b := mustReport(t, s, inv(1, d))
	if got := b.Devices[0]; len(got.Attributes) != 128 || len(got.Capacities) != 0 || len(b.Problems) != 1 {
		t.Errorf("%d attributes and %d capacities with problems %+v", len(got.Attributes), len(got.Capacities), b.Problems)
	}
}

func TestAttributesOfAllKinds(t *testing.T) {
	s, _ := newTestStore(t)
	d := wireDevice("a")
	d.Shareable = true
	d.Attributes = map[string]*backendv1.Attribute{
		"strings":                         {Value: &backendv1.Attribute_StringValues{StringValues: &backendv1.Strings{Values: []string{"a", "b"}}}},
		"ints":                            {Value: &backendv1.Attribute_IntValues{IntValues: &backendv1.Ints{Values: []int64{1, 2}}}},
		"bools":                           {Value: &backendv1.Attribute_BoolValues{BoolValues: &backendv1.Bools{Values: []bool{true}}}},
		"versions":                        {Value: &backendv1.Attribute_VersionValues{VersionValues: &backendv1.Strings{Values: []string{"1.2.3"}}}},
		"resource.kubernetes.io/pcieRoot": textAttribute("pci0000:00"),
	}
	d.RequestPolicies = map[string]*backendv1.RequestPolicy{"memory": {Default: 1 << 20, Range: &backendv1.AmountRange{Min: 1 << 20, Step: 1 << 20}}}
	b := mustReport(t, s, inv(1, d))
	if len(b.Problems) != 0 {
		t.Fatalf("problems %+v", b.Problems)
	}
	got := b.Devices[0]
	for name, want := range map[string]string{"strings": "a,b", "ints": "1,2", "bools": "true", "versions": "1.2.3", "resource.kubernetes.io/pcieRoot": "pci0000:00"} {
		if a, _ := got.Attributes.Get(name); a.String() != want {
			t.Errorf("%s is %q, want %q", name, a, want)
		}
	}
	if p, _ := got.Policies.Get("memory"); p.Default != 1<<20 || *p.Range != (AmountRange{1 << 20, 1 << 30, 1 << 20}) {
		t.Errorf("the policy is %+v", p)
	}
	if again := mustReport(t, s, inv(2, d)); again.Devices[0] != got {
		t.Error("an equal device is another one")
	}
}
