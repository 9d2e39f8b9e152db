package plan

import "strings"

// Import describes how to take over a network that exists before its object. Such a network is never created.
type Import struct {
	// ID is the network's id. It is empty for a network that the controller creates.
	ID string
	// Overwrite allows the takeover of a network that differs from the spec. Without it, the names of the network and
	// its subnets and the subnets' descriptions are not declared. They stay unchanged.
	Overwrite bool
	// AdoptSubnets allows the takeover of subnets that bear no marker and whose CIDR is declared.
	AdoptSubnets bool
}

// keepsNames reports whether names that derive from the object's name stay unchanged.
func (i Import) keepsNames() bool { return i.ID != "" && !i.Overwrite }

// importedWord precedes the marker of an imported network. If the object goes unnoticed, the word says that the network
// is older than the object. Such an orphan is not deleted.
const importedWord = "[imported]"

// describe is the full description of the owner's network, with the user's text.
func (i Import) describe(owner Owner, text string) string {
	if i.ID != "" {
		text = strings.TrimPrefix(text+" "+importedWord, " ")
	}
	return owner.Describe(text)
}

// withoutImported removes importedWord from the text before a marker, and reports whether it was there.
func withoutImported(text string) (rest string, imported bool) {
	if rest, imported = strings.CutSuffix(text, importedWord); !imported {
		return text, false
	}
	return strings.TrimSuffix(rest, " "), true
}
