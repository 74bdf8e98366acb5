// Package profile answers which profile of the configuration applies on this
// node, and puts it in force.
//
// [Choose] has the rules, in this order:
//
//  1. The profile named on the command line applies, whatever the node's labels.
//  2. Without an API server there are no labels: the only profile applies, or the
//     one named default.
//  3. Of the profiles whose nodeSelector matches the node's labels, the one of
//     highest priority applies. Two of the same priority: none is chosen, and the
//     error names both.
//  4. If none matches, the profile named default applies if it has no
//     nodeSelector, or else the only one that has none.
//
// While the labels are not known yet, a profile is chosen only if the labels cannot
// matter: no profile has a nodeSelector. Where none is chosen, what runs stays.
//
// A [Watcher] knows the labels: it watches one object, the agent's own Node. A [Memory]
// stores on disk what it saw, and which profile of which configuration was in force, so
// that a restart without an API server or without a valid configuration file changes
// nothing on the node. The Watcher survives an API server that is
// away for hours, rights that are taken away and a Node that is deleted; in all
// these the labels last seen count. It also has the annotation of cordoned devices, see package cordon.
//
// A [Switch] has the [Plan] in force, and changes it without a gap when the
// configuration file or the labels change. What must run goes to the supervisor;
// the Switch itself starts and stops nothing.
package profile
