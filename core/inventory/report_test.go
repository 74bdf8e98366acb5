package inventory

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that an invalid link is dropped, and nothing else.
func TestLinks(t *testing.T) {
	const (
		nvlink = backendv1.LinkKind_LINK_KIND_NVLINK
		pcie   = backendv1.LinkKind_LINK_KIND_PCIE_SWITCH
		numa   = backendv1.LinkKind_LINK_KIND_SAME_NUMA
	)
	for name, tc := range map[string]struct {
		links  []*backendv1.Link
		want   []Link
		remark string
	}{
		"good":          {[]*backendv1.Link{{PeerId: "b", Kind: nvlink, Count: 4}}, []Link{{"b", "nvlink", 4, 0}}, ""},
		"absent":        {[]*backendv1.Link{{PeerId: "z", Kind: nvlink}, {PeerId: "b", Kind: nvlink}}, []Link{{"b", "nvlink", 1, 0}}, `1 of its 2 links are dropped; the first because peer "z" is not`},
		"self":          {[]*backendv1.Link{{PeerId: "a", Kind: nvlink}}, nil, "to itself"},
		"twice":         {[]*backendv1.Link{{PeerId: "b", Kind: nvlink}, {PeerId: "b", Kind: nvlink}}, []Link{{"b", "nvlink", 1, 0}}, "two direct links to b"},
		"two paths":     {[]*backendv1.Link{{PeerId: "b", Kind: pcie}, {PeerId: "b", Kind: numa}}, []Link{{"b", "pcie_switch", 1, 0}}, "two paths to b"},
		"link and path": {[]*backendv1.Link{{PeerId: "b", Kind: nvlink}, {PeerId: "b", Kind: pcie}}, []Link{{"b", "nvlink", 1, 0}, {"b", "pcie_switch", 1, 0}}, ""},
		"new kind":      {[]*backendv1.Link{{PeerId: "b", Kind: 99}}, nil, "unknown kind 99"},
		"count":         {[]*backendv1.Link{{PeerId: "b", Kind: nvlink, Count: 4097}}, nil, "impossible"},
		"distance":      {[]*backendv1.Link{{PeerId: "b", Kind: nvlink, Distance: math.MaxUint32}}, nil, "impossible"},
		"nil":           {[]*backendv1.Link{nil}, nil, "not a listed"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestStore(t)
			a, bad := wireDevice("a"), wireDevice("bad")
			a.Links, bad.Class = tc.links, "x"
			b := mustReport(t, s, inv(1, a, bad, wireDevice("b")))
			if diff := cmp.Diff(tc.want, b.Devices[0].Links); diff != "" {
				t.Error(diff)
			}
			remarks := b.Problems[1:]
			switch {
			case tc.remark == "" && len(remarks) > 0:
				t.Errorf("problems: %+v", remarks)
			case tc.remark != "" && (len(remarks) != 1 || !strings.Contains(remarks[0].Message, tc.remark)):
				t.Errorf("problems are %+v, want %q", remarks, tc.remark)
			}
		})
	}
	t.Run("too many", func(t *testing.T) {
		s, _ := newTestStore(t)
		devices := wireDevices(512)
		for _, d := range devices {
			for _, peer := range devices {
				if peer != d {
					d.Links = append(d.Links, &backendv1.Link{PeerId: peer.Id, Kind: nvlink})
				}
			}
		}
		b := mustReport(t, s, inv(1, devices...))
		n := 0
		for _, d := range b.Devices {
			n += len(d.Links)
		}
		if n != maxAllLinks {
			t.Errorf("%d links are kept, want %d", n, maxAllLinks)
		}
		if len(b.Problems) != MaxProblems+1 || !strings.HasPrefix(b.Problems[0].Message, "383 of its 511 links are dropped; the first because each of 512 devices may have 128") {
			t.Errorf("problems: %+v", b.Problems)
		}
	})
}

func TestParents(t *testing.T) {
	s, _ := newTestStore(t)
	chain := wireDevices(10)
	chain[0].ParentId = "" // 8 levels are good, GPU-0008 and GPU-0009 hang lower
	for i, d := range chain[1:] {
		d.ParentId = chain[i].Id
	}
	x, y, z := wireDevice("x"), wireDevice("y"), wireDevice("z")
	x.ParentId, y.ParentId, z.ParentId = "y", "x", "not-listed"
	b := mustReport(t, s, inv(1, append(chain, x, y, z)...))
	if got := ids(b.Devices); strings.Contains(got, "x") || strings.Contains(got, "y") || !strings.Contains(got, "z") {
		t.Errorf("devices are %s; the cycle of x and y must be left out, z must stay", got)
	}
	if len(b.Devices) != 9 || len(b.Problems) != 4 || !strings.Contains(b.Problems[0].Message, "cycle") {
		t.Errorf("%d devices, problems %+v", len(b.Devices), b.Problems)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	s, _ := newTestStore(t)
	devices := wireDevices(300)
	for i, d := range devices[:299] {
		switch {
		case i < 100:
			d.Class = "bad"
		default:
			d.Health = &backendv1.Health{Recovered: true}
		}
	}
	w := inv(1, devices...)
	for i := range 1000 {
		w.Problems = append(w.Problems, fmt.Sprintf("card %d is missing%s", i, strings.Repeat("!", 2000)))
	}
	w.Problems[3] = ""
	b := mustReport(t, s, w)
	if len(b.Problems) != 3*(MaxProblems+1) {
		t.Fatalf("%d problems are kept", len(b.Problems))
	}
	for i, want := range map[int]string{
		63: "class", 64: "and 36 more devices are left out", 65: "card 0 is missing!",
		129: "and 935 more problems of the backend's", 130: "recovered", 194: "and 135 more devices have defects",
	} {
		if got := b.Problems[i].Message; !strings.Contains(got, want) || len(got) > maxMessage {
			t.Errorf("problem %d is %q, want %q", i, got, want)
		}
	}
}
