package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// step is one thing that happens. What it means at the node as it is then, such as
// which pod is freed, follows from Arg, so that a step makes sense in any place.
type step struct {
	Action string
	Arg    int
	// Rush lets the next step begin before the node has come to rest.
	Rush bool
}

// String is the step as it is given on the command line: action/arg, with "!" for Rush.
func (s step) String() string {
	rush := ""
	if s.Rush {
		rush = "!"
	}
	return fmt.Sprintf("%s/%d%s", s.Action, s.Arg, rush)
}

// maxArg bounds Arg; every choice of an action is taken from it by a remainder.
const maxArg = 1 << 16

// parseSteps is the inverse of joinSteps: steps between commas or white space.
func parseSteps(text string) ([]step, error) {
	var steps []step
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		bare, rush := strings.CutSuffix(word, "!")
		name, number, _ := strings.Cut(bare, "/")
		arg, err := strconv.Atoi(number)
		if err != nil || arg < 0 || arg >= maxArg {
			return nil, fmt.Errorf("step %q: want action/number, the number from 0 to %d", word, maxArg-1)
		}
		if find(name) == nil {
			return nil, fmt.Errorf("step %q: there is no action %q; -list says which there are", word, name)
		}
		steps = append(steps, step{Action: name, Arg: arg, Rush: rush})
	}
	return steps, nil
}

func joinSteps(steps []step) string {
	words := make([]string, len(steps))
	for i, s := range steps {
		words[i] = s.String()
	}
	return strings.Join(words, ",")
}

// draw makes n steps of a seed. The same seed gives the same steps, and fewer of them
// are the first of more.
func draw(seed uint64, n int) []step {
	random := rand.New(rand.NewPCG(seed, 0))
	total := 0
	for _, a := range actions() {
		total += a.weight
	}
	steps := make([]step, 0, n)
	for range n {
		at, arg, rush := random.IntN(total), random.IntN(maxArg), random.IntN(4) == 0
		for _, a := range actions() {
			if at -= a.weight; at < 0 {
				steps = append(steps, step{Action: a.name, Arg: arg, Rush: rush && a.rush})
				break
			}
		}
	}
	return steps
}

// find is the action with a name, or nil.
func find(name string) *action {
	for _, a := range actions() {
		if a.name == name {
			return &a
		}
	}
	return nil
}
