// Optimizers may share an option, which is then one row with the default of the first optimizer.
// finish() knows the optimizer: it removes the options of others, and sets the defaults of its own.
#include "net/update_options.h"

#include <utility>

#include "src/base/table.h"

namespace lockstep {
namespace {

/// The optimizers that declare option `name`: "adam, adamw".
std::string owners_of(std::string_view name) {
  std::vector<std::string_view> owners;
  for (const OptimizerEntry& entry : optimizers()) {
    if (find_or_null(entry.options, name)) owners.push_back(entry.name);
  }
  return fmt::format("{}", fmt::join(owners, ", "));
}

/// " [rmsprop 1e-07; nadam 1e-07]": the optimizers whose default of an option differs from that of
/// the first optimizer that declares it.
std::string other_defaults(const OptimizerOption& first) {
  std::vector<std::string> others;
  for (const OptimizerEntry& entry : optimizers()) {
    for (const OptimizerOption& option : entry.options) {
      if (option.name == first.name && option.value != first.value)
        others.push_back(fmt::format("{} {:g}", entry.name, option.value));
    }
  }
  return others.empty() ? "" : fmt::format(" [{}]", fmt::join(others, "; "));
}

/// The row of `option`, which all optimizers that declare it share.
OptionRow& declare_option(OptionRows& rows, const OptimizerOption& option, float& value) {
  const std::string name = fmt::format("--{}", option.name),
                    about = std::string(option.about) + other_defaults(option);
  const Bounds bounds{option.low, option.high, option.above_low};
  switch (option.kind) {
    case OptimizerOption::Kind::flag:
      return rows.add(
          name, OptionRow::Type::flag,
          [name, &value](const std::string& text) { value = parse_flag(name, text); },
          [&value] { return value != 0 ? "true" : "false"; }, "", about);
    case OptimizerOption::Kind::whole:
      return rows.add(
          name, OptionRow::Type::whole,
          [=, &value](const std::string& text) {
            value = static_cast<float>(parse_number<int>(name, text, bounds));
          },
          [&value] { return fmt::format("{}", value); }, "N", about);
    default:
      return rows.number(name, value, bounds, about);
  }
}

}  // namespace

void UpdateOptions::declare(OptionRows& rows) {
  rows.group("Optimizer", /*shapes_weights=*/true);
  rows.entry("--optimizer", name, "Optimizer (see --list)", optimizers())
      .common()
      .also_called({"opt"});
  rows.number("--weight-decay", weight_decay, Bounds::at_least(0),
              "Weight decay of all weights, added to the model's own\n"
              "It is an L2 term of the loss, except that adamw and lamb decouple it.")
      .common()
      .example("0.0001")
      .also_called({"wd"});
  rows.list(
          "--group", group_texts, "PATTERN:SETTINGS",
          "Settings of the parameters whose names match a pattern\n"
          "An example is 'conv*/biases:lr=0.1,weight-decay=0'. * matches any text. lr is a factor "
          "of --lr; 0 freezes the parameters. weight-decay replaces any other decay. epochs "
          "freezes them after so many epochs, and their schedule ends there too. Pass the option "
          "again for more groups. The first match counts.",
          parse_group)
      .follows("--optimizer")
      .example("'*/biases:lr=0.1,weight-decay=0'");
  rows.number("--clip-norm", clip_norm, Bounds::at_least(0),
              "Largest norm of all gradients together; 0: no clipping")
      .example("1")
      .also_called({"clip-grad-norm", "gradient-clip-val", "max-grad-norm"});
  declare_loss(rows);
  rows.number("--ema", ema, Bounds::at_least(0, 1),
              "Decay of the weights' moving average for evaluation; 0: none")
      .also_called({"ema-decay", "model-ema-decay"});
  declare_own(rows);
}

void UpdateOptions::declare_loss(OptionRows& rows) {
  rows.text("--class-weights", class_weights, "HOW",
            "Weights of classes in the loss: balanced or a file [none]\n"
            "balanced gives class c the weight n / (classes * n_c), where n_c of all n training "
            "samples are its own. A CSV file has a line class,weight for each class. Evaluations "
            "have no weights.")
      .suggests({"balanced"})
      .common()
      .example("balanced")
      .also_called({"class-weight"});
  loss.each_number([&](const LossOption& option, float& value) {
    rows.number(fmt::format("--{}", option.name), value, Bounds::at_least(0, option.most),
                std::string(option.about))
        .example(std::string(option.example));
  });
}

void UpdateOptions::declare_own(OptionRows& rows) {
  for (const OptimizerEntry& entry : optimizers()) {
    for (const OptimizerOption& option : entry.options) {
      const auto [place, fresh] = own.try_emplace(std::string(option.name), option.value);
      if (!fresh) continue;
      rows.group("With --optimizer " + owners_of(option.name), /*shapes_weights=*/true);
      OptionRow& row = declare_option(rows, option, place->second);
      std::string shown(option.example);
      if (shown.empty() && row.type != OptionRow::Type::flag) shown = row.by_default;
      row.only_if([this, option = option.name] { return own.contains(option); })
          .follows("--optimizer")
          .example(fmt::format("{}{}--optimizer {}", shown, shown.empty() ? "" : " ", entry.name))
          .is_common = option.common;
    }
  }
}

void UpdateOptions::finish(OptionRows& rows) {
  const OptimizerEntry& chosen = find(optimizers(), name);
  for (auto each = own.begin(); each != own.end();) {
    OptionRow& row = rows.at("--" + each->first);
    const OptimizerOption* option = find_or_null(chosen.options, each->first);
    if (!option && row.given()) {
      const std::vector<std::string> known = names_of(chosen.options);
      fail_usage("{} is an option of --optimizer {}, not of {}, which has {}", row.where(),
                 owners_of(each->first), chosen.name,
                 known.empty() ? "none" : fmt::format("--{}", fmt::join(known, ", --")));
    }
    if (!option) {
      each = own.erase(each);
      continue;
    }
    // The row prints its value. So the default takes its place for a moment, and a value that the
    // user passed comes back.
    const float read = std::exchange(each->second, option->value);
    row.by_default = row.show();
    if (row.source != OptionRow::Source::initial) each->second = read;
    ++each;
  }
  for (const std::string& text : group_texts) groups.push_back(parse_group(text));
}

}  // namespace lockstep
