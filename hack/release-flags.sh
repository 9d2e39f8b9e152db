# What the tools of a release need to know of it, as flags: sourced by others, in the repository's root.
revision=$(git rev-parse HEAD)
[[ -z $(git status --porcelain) ]] || revision+=-dirty
release_flags=(
  -version="${VERSION:?}" -revision="$revision" -epoch="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
)
