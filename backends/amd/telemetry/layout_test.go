package telemetry

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// place is where a C compiler puts a field.
type place struct{ Offset, Width, Count int }

// compiled returns testdata/layout.txt, which testdata/layout.c prints: the places of the fields by revision, and under
// "." the size of the table.
func compiled(t testing.TB) map[string]map[string]place {
	t.Helper()
	f, err := os.Open("testdata/layout.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	all := map[string]map[string]place{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var version, name string
		var p place
		if _, err := fmt.Sscan(lines.Text(), &version, &name, &p.Offset, &p.Width, &p.Count); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if all[version] == nil {
			all[version] = map[string]place{}
		}
		all[version][name] = p
	}
	if len(all) != 19 {
		t.Fatalf("%d tables in layout.txt", len(all))
	}
	return all
}

func places(fields []field, size int) map[string]place {
	all := map[string]place{".": {Offset: size}}
	for _, f := range fields {
		all[f.name] = place{f.offset, f.width, f.count}
	}
	return all
}

// Every field of every revision is where a C compiler puts it, inner tables too.
func TestLayout(t *testing.T) {
	want := compiled(t)
	inner := map[revision]string{{1, 6}: "xcp1.0", {1, 7}: "xcp1.1", {1, 8}: "xcp1.2"}
	// One describes itself, and one that was compiled is of a partition's file.
	if len(layouts)-1 != len(want)-1-len(inner) {
		t.Errorf("%d revisions are known, %d were compiled", len(layouts)-1, len(want)-1-len(inner))
	}
	known := partitionLayouts[revision{1, 0}]
	if diff := cmp.Diff(want["partition1.0"], places(known.fields, known.size)); diff != "" {
		t.Errorf("a partition's file (-C +Go):\n%s", diff)
	}
	for at, known := range layouts {
		if known.fields == nil {
			continue
		}
		name := fmt.Sprintf("%d.%d", at.format, at.content)
		if diff := cmp.Diff(want[name], places(known.fields, known.size)); diff != "" {
			t.Errorf("revision %s (-C +Go):\n%s", name, diff)
		}
		tables := 0
		for _, f := range known.fields {
			if f.table == nil {
				continue
			}
			tables++
			if diff := cmp.Diff(want[inner[at]], places(f.table, f.width)); diff != "" {
				t.Errorf("partitions of revision %s (-C +Go):\n%s", name, diff)
			}
		}
		if (tables == 1) != (inner[at] != "") {
			t.Errorf("revision %s has %d tables of partitions", name, tables)
		}
		for field := range known.means {
			if !has(known.fields, field) && field != "indep_throttle_status" && !optional[field] {
				t.Errorf("revision %s has no %s", name, field)
			}
		}
	}
}

// optional are fields that have a meaning in a group of revisions, but are not in
// all of them.
var optional = map[string]bool{
	"temperature_hbm": true, "voltage_soc": true, "voltage_gfx": true, "voltage_mem": true,
	"vcn_activity": true, "jpeg_activity": true, "accumulation_counter": true, "prochot_residency_acc": true,
	"ppt_residency_acc": true, "socket_thm_residency_acc": true, "vr_thm_residency_acc": true,
	"hbm_thm_residency_acc": true, "pcie_nak_sent_count_acc": true, "pcie_nak_rcvd_count_acc": true,
}

// made returns a table of a revision as the driver makes it: all that is not given is
// marked as not available. A field is given by its name, and by xcp<i>.<name> in
// the table of partition i.
func made(t testing.TB, version string, fields map[string][]uint64) []byte {
	t.Helper()
	all := compiled(t)
	of, ok := all[version]
	if !ok {
		t.Fatalf("no revision %s", version)
	}
	size := of["."].Offset
	table := []byte(strings.Repeat("\xff", size))
	binary.NativeEndian.PutUint16(table, uint16(size))
	if _, err := fmt.Sscanf(strings.TrimPrefix(version, "partition"), "%d.%d", &table[2], &table[3]); err != nil {
		t.Fatal(err)
	}
	inner := map[string]string{"1.6": "xcp1.0", "1.7": "xcp1.1", "1.8": "xcp1.2"}[version]
	for name, numbers := range fields {
		p, base := of[name], 0
		if head, tail, ok := strings.Cut(name, "."); ok {
			var i int
			if _, err := fmt.Sscanf(head, "xcp%d", &i); err != nil {
				t.Fatal(err)
			}
			p, base = all[inner][tail], of["xcp_stats"].Offset+i*of["xcp_stats"].Width
		}
		if len(numbers) > p.Count {
			t.Fatalf("revision %s has %d of %s", version, p.Count, name)
		}
		for i, n := range numbers {
			b := table[base+p.Offset+i*p.Width:]
			switch p.Width {
			case 1:
				b[0] = byte(n)
			case 2:
				binary.NativeEndian.PutUint16(b, uint16(n))
			case 4:
				binary.NativeEndian.PutUint32(b, uint32(n))
			case 8:
				binary.NativeEndian.PutUint64(b, n)
			}
		}
	}
	return table
}
