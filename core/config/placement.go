package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// AnnotationPrefix stands before the keys of the node's annotations in the map that
// [NodeSelector.Matches] takes; the key of a label cannot have it.
const AnnotationPrefix = "annotation:"

// Matches reports whether a node with these labels, and annotations after
// [AnnotationPrefix], is selected. A nil selector selects no node.
func (s *NodeSelector) Matches(node map[string]string) bool {
	if s == nil {
		return false
	}
	for key, want := range s.MatchAnnotations {
		if value, ok := node[AnnotationPrefix+key]; !ok || value != want {
			return false
		}
	}
	selector := &metav1.LabelSelector{MatchLabels: s.MatchLabels}
	for _, r := range s.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values,
		})
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	// No error: validation has refused invalid selectors.
	return err == nil && compiled.Matches(labels.Set(node))
}

// Covers reports whether the selector matches every node that another one matches. It compares the requirements one by one:
// false means that this is not known. A nil selector covers none.
func (s *NodeSelector) Covers(other *NodeSelector) bool {
	if s == nil || other == nil {
		return false
	}
	has := other.requirements()
	return !slices.ContainsFunc(s.requirements(), func(r string) bool { return !slices.Contains(has, r) })
}

// requirements returns each requirement as a text that is the same for the same nodes.
func (s *NodeSelector) requirements() (all []string) {
	for key, value := range s.MatchLabels {
		all = append(all, fmt.Sprint(key, NodeIn, []string{value}))
	}
	for key, value := range s.MatchAnnotations {
		all = append(all, fmt.Sprint(AnnotationPrefix, key, NodeIn, []string{value}))
	}
	for _, r := range s.MatchExpressions {
		all = append(all, fmt.Sprint(r.Key, r.Operator, slices.Compact(slices.Sorted(slices.Values(r.Values)))))
	}
	return all
}

// Contradiction returns a label whose requirements no node meets at once; "" if there is none.
func (s *NodeSelector) Contradiction() string {
	values := map[string][]string{}
	for key, value := range s.MatchLabels {
		values[key] = append(values[key], value)
	}
	for _, r := range s.MatchExpressions {
		values[r.Key] = append(values[r.Key], r.Values...)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		of := &NodeSelector{}
		if value, ok := s.MatchLabels[key]; ok {
			of.MatchLabels = map[string]string{key: value}
		}
		for _, r := range s.MatchExpressions {
			if r.Key == key {
				of.MatchExpressions = append(of.MatchExpressions, r)
			}
		}
		const another = "\x00" // no label has this value
		if !of.Matches(nil) && !slices.ContainsFunc(append(values[key], another), func(value string) bool { return of.Matches(map[string]string{key: value}) }) {
			return key
		}
	}
	return ""
}

// placement checks a profile's priority and nodeSelector.
func (v *validator) placement(p *Profile, at string) {
	v.integer(at+".priority", p.Priority, -maxPriority, maxPriority)
	if p.NodeSelector == nil {
		if p.Priority != 0 {
			v.report(at+".priority", "has a meaning only with a nodeSelector")
		}
		return
	}
	at += ".nodeSelector"
	for _, key := range slices.Sorted(maps.Keys(p.NodeSelector.MatchLabels)) {
		path := FieldPath(at+".matchLabels", key)
		v.check(path, v.checkSelectorKey(key))
		v.check(path, checkLabelValue(p.NodeSelector.MatchLabels[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(p.NodeSelector.MatchAnnotations)) {
		path := FieldPath(at+".matchAnnotations", key)
		v.check(path, checkLabelKey(key))
		v.check(path, checkLabelValue(p.NodeSelector.MatchAnnotations[key]))
	}
	for i, r := range p.NodeSelector.MatchExpressions {
		v.requirement(r, itemPath(at+".matchExpressions", i))
	}
}

func (v *validator) requirement(r NodeRequirement, at string) {
	if v.required(at+".key", r.Key, ", the name of a label") {
		v.check(at+".key", v.checkSelectorKey(r.Key))
	}
	if !v.required(at+".operator", string(r.Operator), ": In, NotIn, Exists or DoesNotExist") {
		return
	}
	oneOf(v, at+".operator", r.Operator, NodeIn, NodeNotIn, NodeExists, NodeDoesNotExist)
	switch r.Operator {
	case NodeIn, NodeNotIn:
		if len(r.Values) == 0 {
			v.report(at+".values", "at least one value is required with the operator %s", r.Operator)
		}
	case NodeExists, NodeDoesNotExist:
		if len(r.Values) > 0 {
			v.report(at+".values", "must not be given with the operator %s", r.Operator)
		}
	}
	for i, value := range r.Values {
		v.check(itemPath(at+".values", i), checkLabelValue(value))
	}
}

// checkSelectorKey refuses labels that are features of a profile: the label would go when
// another profile applies, and the first one would no longer match.
func (v *validator) checkSelectorKey(key string) error {
	if domain, _, ok := strings.Cut(key, "/"); ok && (v.prefixes[domain] || strings.HasSuffix(domain, FeatureDomainSuffix)) {
		return fmt.Errorf("%s is a label that the backends of a profile cause; it cannot select the profile: use a label of your own, such as accelmux.io/profile", show(key))
	}
	return checkLabelKey(key)
}

func checkLabelKey(key string) error {
	if len(validation.IsQualifiedName(key)) > 0 {
		return fmt.Errorf("%s is not the name of a label, such as example.com/accelerator: %s", show(key), qualified)
	}
	return nil
}

// qualified is what Kubernetes requires of the names of labels and annotations.
const qualified = "letters, digits, dashes, underscores and dots, at most 63, with a letter or digit at both ends, after a DNS name and a slash if there is one"

func checkLabelValue(value string) error {
	if len(validation.IsValidLabelValue(value)) > 0 {
		return fmt.Errorf("the value of a label is letters, digits, dashes, underscores and dots, with a letter or digit at both ends, at most %d, is %s",
			validation.LabelValueMaxLength, show(value))
	}
	return nil
}
