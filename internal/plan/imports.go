package plan

import "strings"

// Import is how a network that was there before its object is taken over. Such a network is never created.
type Import struct {
	// ID is the network's; empty for a network that is made here.
	ID string
	// Overwrite allows the network to differ from the spec when it is taken over. Without it, the names of the network and
	// its subnets, and the texts of the subnets' descriptions, are not declared, and stay as they are.
	Overwrite bool
	// AdoptSubnets has subnets that bear nobody's marker taken over where their CIDR is declared.
	AdoptSubnets bool
}

// keepsNames reports whether names that only follow from the object's are left as they are.
func (i Import) keepsNames() bool { return i.ID != "" && !i.Overwrite }

// importedWord stands in front of the marker of a network that was imported. Should its object go and nobody see it, it
// says that the network was there before, and is not to be deleted for it.
const importedWord = "[imported]"

// describe is the whole description of a network of the owner's with the user's text.
func (i Import) describe(owner Owner, text string) string {
	if i.ID != "" {
		text = strings.TrimPrefix(text+" "+importedWord, " ")
	}
	return owner.Describe(text)
}

// withoutImported is a text in front of a marker without the word that says that its network was imported.
func withoutImported(text string) (rest string, imported bool) {
	if rest, imported = strings.CutSuffix(text, importedWord); !imported {
		return text, false
	}
	return strings.TrimSuffix(rest, " "), true
}
