# The batch of a plan of waves whose turn it is, as an inventory for change.yml:
#   featurelib waves status waves.json --tables TABLES --json | jq -f batch.jq > batch.json
# What somebody else finalizes is not in it, nor what is not ready tonight.
{
  featurelib: {
    hosts: (
      [
        .status.steps[].next[] | select(.held == null) | .work
        | [.does[] | select(.by == "") | .moves[] | "--upgrade", "\(.feature):\(.to_level)"] as $moves
        | select($moves != [])
        | {(.name): {wish: (["update"] + $moves)}}
      ] | add // {}
    )
  }
}
