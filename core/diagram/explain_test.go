package diagram

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/topology"
)

// TestReasons verifies the explanations of choices on existing machines.
func TestReasons(t *testing.T) {
	shared := func() []Used {
		var units []Used
		for _, u := range switched()[:3] {
			for r := range 2 {
				u.ID = fmt.Sprintf("%s::%d", u.Device.ID, r)
				units = append(units, u)
			}
		}
		return units
	}
	for name, tc := range map[string]struct {
		units    []Used
		policy   topology.Policy
		question Question
	}{
		"dgx1-pair":     {use(dgx1(), []int{3}, nil), topology.BestLinks, Question{Size: 2}},
		"dgx1-must":     {use(dgx1(), []int{3}, nil), topology.BestLinks, Question{Size: 4, Must: []string{"gpu03"}}},
		"h100-four":     {use(switched(), []int{0}, nil), topology.BestLinks, Question{Size: 4}},
		"pcie-one":      {use(pcie(), []int{5}, []int{6}), topology.BestLinks, Question{Size: 1}},
		"pcie-few":      {use(pcie(), []int{0, 1, 2, 3}, nil), topology.BestLinks, Question{Size: 5}},
		"pcie-all":      {use(pcie(), []int{0, 1, 2}, nil), topology.BestLinks, Question{Size: 4, All: true}},
		"cpx-one":       {use(cpx(), []int{0, 1, 17}, nil), topology.BestLinks, Question{Size: 1}},
		"cpx-spread":    {use(cpx(), []int{0}, nil), topology.Spread, Question{Size: 9}},
		"cpx-one-gpu":   {cpx(), topology.BestLinks, Question{Size: 4, Available: []string{"gpu01", "gpu02-p0"}}},
		"shared-two":    {use(shared(), []int{0}, nil), topology.BestLinks, Question{Size: 2}},
		"alike":         {switched()[:4], topology.BestLinks, Question{Size: 2}},
		"none":          {switched(), topology.None, Question{Size: 2}},
		"pcie-nobroken": {use(pcie(), nil, []int{0}), topology.Pack, Question{Size: 2, Available: []string{"gpu00", "gpu01", "gpu02"}}},
	} {
		t.Run(name, func(t *testing.T) {
			choice, err := Explain(t.Context(), resource(tc.units, tc.policy), tc.question)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			Reasons(&text, &choice)
			golden(t, "explain-"+name+".txt", text.Bytes())
		})
	}
}

// TestMistakes verifies the errors of questions without an answer.
func TestMistakes(t *testing.T) {
	var shared []Used
	for _, u := range pcie() {
		for r := range 2 {
			u.ID = fmt.Sprintf("%s::%d", u.Device.ID, r)
			shared = append(shared, u)
		}
	}
	for _, tc := range []struct {
		units    []Used
		question Question
		want     string
	}{
		{pcie(), Question{}, "request 1 unit or more, not 0"},
		{pcie(), Question{Size: 9}, "9 units are requested, but example.com/gpu has 8 units"},
		{nil, Question{Size: 1}, "1 unit is requested, but example.com/gpu has 0 units"},
		{pcie(), Question{Size: 1, Must: []string{"gpu01", "gpu02"}}, "2 units must be included, but 1 requested"},
		{pcie(), Question{Size: 1, Must: []string{"gpx1"}}, `example.com/gpu has no unit "gpx1"; did you mean "gpu01"?`},
		{pcie(), Question{Size: 1, Available: []string{"gpu00", "fpga-7"}}, `example.com/gpu has no unit "fpga-7"`},
		{shared, Question{Size: 1, Must: []string{"gpu01"}}, `"gpu01" is a device of example.com/gpu with several units; name one of gpu01::0 gpu01::1`},
	} {
		_, err := Explain(t.Context(), resource(tc.units, topology.BestLinks), tc.question)
		if err == nil || err.Error() != tc.want {
			t.Errorf("%+v: %v, want %s", tc.question, err, tc.want)
		}
	}
}

// TestOutOfTime verifies that a choice is explained without a runner-up when the time ends,
// and that the text of a greedy choice says that another may be better.
func TestOutOfTime(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	choice, err := Explain(ended, resource(pcie(), topology.BestLinks), Question{Size: 2})
	if err != nil || !choice.Partial || choice.RunnerUp != nil || choice.Decides != "" || len(choice.Chosen.Units) != 2 {
		t.Errorf("%+v, %v", choice, err)
	}
	var text bytes.Buffer
	Reasons(&text, &choice)
	choice.Method, choice.Exact = "greedy", false
	Reasons(&text, &choice)
	for _, want := range []string{"time did not suffice to search for a runner-up", "another may be better"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}
