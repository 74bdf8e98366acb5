package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const report = `{"Action":"run","Package":"x/kubelet","Test":"TestA"}
{"Action":"run","Package":"x/kubelet","Test":"TestA/one"}
{"Action":"pass","Package":"x/kubelet","Test":"TestA/one"}
{"Action":"run","Package":"x/kubelet","Test":"TestA/two"}
{"Action":"output","Package":"x/kubelet","Test":"TestA/two","Output":"    a_test.go:7: kubelet cannot (KEP-1)\n"}
{"Action":"skip","Package":"x/kubelet","Test":"TestA/two"}
{"Action":"pass","Package":"x/kubelet","Test":"TestA"}
{"Action":"run","Package":"x/kubelet","Test":"TestB"}
{"Action":"run","Package":"x/kubelet","Test":"TestB/one"}
{"Action":"fail","Package":"x/kubelet","Test":"TestB/one"}
{"Action":"fail","Package":"x/kubelet","Test":"TestB"}
{"Action":"pass","Package":"x/kubelet"}
`

// TestTable verifies that tests count once, by name where they are skipped or fail,
// and that a release's lines replace its own and nobody else's.
func TestTable(t *testing.T) {
	r, err := read("v1.31.14", strings.NewReader(report))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "README.md")
	before := "above\n" + begin + head + "| v1.31.14 | 0 | 0 | 9 |\n| v1.37.1 | 5 | 0 | 0 |\n\n- v1.31.14 skips: all.\n" + end + "\nbelow\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.write(file); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "above\n" + begin + head + "| v1.31.14 | 1 | 1 | 1: kubelet.TestB/one |\n| v1.37.1 | 5 | 0 | 0 |\n\n" +
		"- v1.31.14 skips: kubelet cannot (KEP-1): kubelet.TestA/two.\n" + end + "\nbelow\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := os.WriteFile(file, []byte("no table"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.write(file); err == nil {
		t.Error("a file without a place for the table is no error")
	}
}

// TestChoose verifies that all releases are run unless some are asked for, and that one
// that there is not is an error that says which there are.
func TestChoose(t *testing.T) {
	all := []string{"v1.36.3", "v1.37.1"}
	for _, c := range []struct {
		asked []string
		want  string
	}{
		{nil, "[v1.36.3 v1.37.1] <nil>"},
		{[]string{"v1.37.1"}, "[v1.37.1] <nil>"},
		{[]string{"v1.37.1", "1.36.3"}, "[] no kubelet 1.36.3: there are v1.36.3 v1.37.1"},
	} {
		got, err := choose(all, c.asked)
		if text := fmt.Sprint(got, " ", err); text != c.want {
			t.Errorf("%q: %s, want %s", c.asked, text, c.want)
		}
	}
}
