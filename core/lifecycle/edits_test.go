package lifecycle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
)

// given is a unit whose device sets variables, some of them joined by a comma.
func given(id string, env map[string]string, joined ...string) Unit {
	return Unit{ID: id, Device: &inventory.Device{Key: inventory.Key{Backend: "mock", ID: id}, Edits: editsOf(env, joined...)}}
}

func editsOf(env map[string]string, joined ...string) inventory.Edits {
	separators := map[string]string{}
	for _, name := range joined {
		separators[name] = ","
	}
	return inventory.Edits{Env: inventory.Named(env), EnvSeparators: inventory.Named(separators)}
}

// Verifies what becomes of variables that Prepare's answer joins: the edits of each device
// that has one get the value of the whole container, with what other devices set
// themselves, and no device's own edits change.
func TestJoinPrepared(t *testing.T) {
	type vars = map[string]string
	for name, tc := range map[string]struct {
		units   []Unit
		answers map[string]inventory.Edits
		want    map[string]vars
		refused string
	}{
		"joined among answers": {
			[]Unit{given("b", nil), given("a", nil)},
			map[string]inventory.Edits{"a": editsOf(vars{"V": "1", "OWN": "x"}, "V"), "b": editsOf(vars{"V": "2"}, "V")},
			map[string]vars{"a": {"V": "1,2", "OWN": "x"}, "b": {"V": "1,2"}}, "",
		},
		"in place of the device's own": {
			[]Unit{given("a", vars{"V": "old"}, "V"), given("b", vars{"V": "2"}, "V")},
			map[string]inventory.Edits{"a": editsOf(vars{"V": "new"}, "V"), "b": {}},
			map[string]vars{"a": {"V": "new,2"}, "b": nil}, "",
		},
		"replicas count once": {
			[]Unit{given("a", vars{"V": "1"}, "V"), given("a", vars{"V": "1"}, "V")},
			map[string]inventory.Edits{"a": editsOf(vars{"V": "7"}, "V")},
			map[string]vars{"a": {"V": "7"}}, "",
		},
		"without variables": {
			[]Unit{given("a", vars{"V": "1"}, "V"), given("b", vars{"V": "2"})},
			map[string]inventory.Edits{"a": {AdditionalGIDs: []uint32{7}}}, map[string]vars{"a": nil}, "",
		},
		"they disagree": {
			[]Unit{given("a", nil), given("b", vars{"V": "2"})},
			map[string]inventory.Edits{"a": editsOf(vars{"V": "1"}, "V")}, nil, "not joined for device mock/b",
		},
		"one is joined no more": {
			[]Unit{given("a", vars{"V": "1"}, "V"), given("b", vars{"V": "2"}, "V")},
			map[string]inventory.Edits{"a": editsOf(vars{"V": "1"})}, nil, "not joined for device mock/a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before []vars
			for _, u := range tc.units {
				before = append(before, u.Device.Edits.Env.Map())
			}
			prepared := map[inventory.Key]inventory.Edits{}
			for id, e := range tc.answers {
				prepared[inventory.Key{Backend: "mock", ID: id}] = e
			}
			err := joinPrepared(tc.units, prepared)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("got %v, want %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]vars{}
			for key, e := range prepared {
				got[key.ID] = e.Env.Map()
				if len(e.EnvSeparators) > 0 {
					t.Errorf("%s still has separators %v", key, e.EnvSeparators)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("prepared (-want +got):\n%s", diff)
			}
			for i, u := range tc.units {
				if diff := cmp.Diff(before[i], u.Device.Edits.Env.Map()); diff != "" {
					t.Errorf("the device's own edits changed:\n%s", diff)
				}
			}
		})
	}
}
