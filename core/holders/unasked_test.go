package holders

import (
	"testing"
	"time"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// A unit that kubelet lists out of nowhere was given out by somebody else, until its
// container is gone. One that was listed before we knew it, one that was allocated, one
// that a list ended and another brought back, and one of a resource that is not ours were
// not.
func TestUnasked(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	opts.Owns = func(resource string) bool { return resource == gpu }
	b := open(t, k, opts)
	want := func(when string, units ...string) {
		t.Helper()
		poll(t, b)
		all := b.Unasked()
		if len(all) != len(units) {
			t.Fatalf("%s: %+v, want %v", when, all, units)
		}
		for i, f := range all {
			if f.Unit != units[i] || f.Resource != gpu || f.Pod == "" || f.Since.IsZero() {
				t.Errorf("%s: %+v, want %v", when, all, units)
			}
		}
	}
	k.shows(pod("old", "a", "strange-1"))
	want("at the first list")
	want("at the second")
	allocate(t, b, "b")
	k.shows(pod("old", "a", "strange-1"), pod("ours", "b"), podOf("other", "example.com/nic", "n"))
	want("an allocation")
	k.shows(pod("old", "a", "strange-1"), pod("ours", "b"), pod("new", "c", "strange-2"))
	want("out of nowhere", "c", "strange-2")
	k.shows(pod("old", "a", "strange-1"), pod("ours", "b"), pod("new", "c"))
	want("one is gone", "c")
	k.shows()
	k.pass(time.Hour)
	want("all are gone")
	k.shows(pod("old", "a"), pod("ours", "b"))
	want("they come back")
}

// Allocatable is what kubelet says, of the resources that were asked for.
func TestAllocatable(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	k.devices = []*podresourcesv1.ContainerDevices{
		{ResourceName: gpu, DeviceIds: []string{"a"}}, {ResourceName: "example.com/nic", DeviceIds: []string{"n"}}, {ResourceName: gpu, DeviceIds: []string{"a", "b"}},
	}
	got, err := b.Allocatable(t.Context(), func(name string) bool { return name == gpu })
	if err != nil || len(got) != 1 || len(got[gpu]) != 2 || !got[gpu]["a"] || !got[gpu]["b"] {
		t.Errorf("%v, %v", got, err)
	}
	k.absent = true
	if _, err := b.Allocatable(t.Context(), func(string) bool { return true }); err == nil {
		t.Error("without kubelet there is no error")
	}
}
